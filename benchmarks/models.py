"""Forward and backward passes of the built-in models beside transformers' own, from the same weights.

    python benchmarks/models.py [--repeats N] [--cpu-time] [--json FILE]

GPT-2 and BERT in their base shapes (12 layers, width 768), training mode with their dropout, on a GPU if there is
one and on the processor otherwise. Ours and theirs alternate, so that a slow spell of the machine hits both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import transformers
from _frame import Result, alternate, machine, parser, rate_result, report

from workbench.models.imports import to_builtin

BATCH, TOKENS = (8, 512) if torch.cuda.is_available() else (2, 128)


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config())


def bert() -> Any:
    return transformers.BertForMaskedLM(transformers.BertConfig())


def training_pass(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> Callable[[], None]:
    def run() -> None:
        model.zero_grad(set_to_none=True)
        model(input_ids=ids, attention_mask=mask, labels=ids).loss.backward()

    return run


def compare(
    name: str, build: Callable[[], Any], repeats: int, clock: Callable[[], float], *, is_padded: bool
) -> Result:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    peer = build().to(device).train()
    ours = to_builtin(peer)
    ids = torch.randint(100, 30000, (BATCH, TOKENS), device=device)
    mask = torch.ones_like(ids)
    if is_padded:
        mask[0, TOKENS * 3 // 4 :] = 0
    arms = (training_pass(ours, ids, mask), training_pass(peer, ids, mask))
    seconds = alternate(*arms, repeats, clock=clock)
    return rate_result(name, BATCH * TOKENS, "tokens/s", *seconds, at_least=1.0)


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    transformers.logging.set_verbosity_error()
    clock = time.process_time if options.cpu_time else time.perf_counter
    results = [
        compare(f"{name} forward + backward{suffix}", build, options.repeats, clock, is_padded=is_padded)
        for name, build in (("gpt2", gpt2), ("bert-base", bert))
        for suffix, is_padded in (("", False), (", padded", True))
    ]
    report(results, machine(), options.json)


if __name__ == "__main__":
    main()
