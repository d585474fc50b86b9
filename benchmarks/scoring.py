"""The scoring engine beside lm-eval's ``hf`` model on LAMBADA: same numbers, throughput, peak memory.

python benchmarks/scoring.py [--limit 300] [--timed 100] [--repeats 3] [--cpu-time] [--json FILE]
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from _frame import (
    Result,
    alternate,
    in_subprocess,
    machine,
    matmul_rate,
    parser,
    peak_mib,
    rate_result,
    report,
    reset_peak,
)

import workbench
from workbench.data import read_lambada, split_target
from workbench.scoring import Engine, Request

MODEL = "smollm2-135m"
# Published for these 300 rows and weights; ours must give them, and lm-eval does in the same run.
ACCURACY, PERPLEXITY = 0.3267, 43.71
# lm-eval is run at each of these and its best time counts.
PEER_BATCH_SIZES = (1, 8, 16)


def requests(data_dir: Any, limit: int) -> list[Request]:
    return [
        Request(*split_target(p.text))
        for p in read_lambada("lambada_openai", data_dir / "lambada").items[:limit]
    ]


def peer_arm(
    model: workbench.LoadedModel, asked: list[Request], batch_size: int
) -> Callable[[], list[tuple[float, bool]]]:
    """lm-eval's own model class over the same weights."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=batch_size)

    def run() -> list[tuple[float, bool]]:
        instances = [
            Instance("loglikelihood", {}, (r.context, r.continuation), i) for i, r in enumerate(asked)
        ]
        return lm.loglikelihood(instances, disable_tqdm=True)

    return run


def summarise(pairs: list[tuple[float, bool]]) -> tuple[float, float]:
    """Accuracy and perplexity per target."""
    return sum(g for _, g in pairs) / len(pairs), math.exp(-sum(p for p, _ in pairs) / len(pairs))


def numbers(model: workbench.LoadedModel, asked: list[Request]) -> list[Result]:
    """Equality with lm-eval on all requests, and independence of the batch size."""
    ours = [(s.log_probability, s.is_greedy) for s in Engine(model).score(asked)]
    peer = peer_arm(model, asked, 8)()
    (accuracy, perplexity), (peer_accuracy, peer_perplexity) = summarise(ours), summarise(peer)
    short = sorted(asked, key=lambda r: len(r.context))[:32]
    one, many = (Engine(model, batch_tokens=n).score(short) for n in (1, 4096))
    gap = max(abs(a.log_probability - b.log_probability) for a, b in zip(one, many, strict=True))
    same = accuracy == peer_accuracy
    close = abs(perplexity - peer_perplexity) <= 0.01
    return [
        Result("accuracy, float32", accuracy, peer_accuracy, "", None, "equal to lm-eval's", same),
        Result("perplexity, float32", perplexity, peer_perplexity, "", None, "lm-eval's to 0.01", close),
        Result("largest change from batch 1 to N, float32", gap, None, "nats", None, "<= 1e-4", gap <= 1e-4),
    ]


def throughput(asked: list[Request], repeats: int, clock: Callable[[], float]) -> list[Result]:
    """Tokens per second of ours at both precisions against lm-eval at float32, its best batch size."""
    reference = workbench.load(MODEL, dtype="float32")
    sequences = Engine(reference).encode(asked)
    tokens = sum(s.length for s in sequences)
    timed = {
        n: alternate(lambda: None, peer_arm(reference, asked, n), 1, warmup=0, clock=clock)[1][0]
        for n in PEER_BATCH_SIZES
    }
    best = min(timed, key=lambda n: timed[n])
    print(f"lm-eval's best batch size here: {best}", {n: f"{tokens / t:.0f} tok/s" for n, t in timed.items()})
    peer = peer_arm(reference, asked, best)
    results = []
    for dtype, goal in (("float32", 1.2), ("auto", 3.5)):
        model = workbench.load(MODEL, dtype=dtype)
        engine = Engine(model)
        ours_s, peer_s = alternate(lambda engine=engine: engine.score(asked), peer, repeats, clock=clock)
        name = f"throughput at {str(model.dtype)[6:]} against lm-eval at float32"
        results.append(rate_result(name, tokens, "tokens/s", ours_s, peer_s, goal))
        share = share_of_matmul(model, sequences, min(ours_s), clock)
        results.append(
            Result(
                f"share of the matrix-product rate, {str(model.dtype)[6:]}",
                share,
                None,
                "",
                None,
                ">= 0.75",
                share >= 0.75,
            )
        )
    return results


def share_of_matmul(
    model: workbench.LoadedModel, sequences: list[Any], seconds: float, clock: Callable[[], float]
) -> float:
    """Useful operations (2 per weight and token, head only at scored tokens) against the measured rate."""
    head = model.model.get_output_embeddings().weight.numel()
    body = model.num_parameters - head  # tied: counted once
    useful = 2 * body * sum(s.length for s in sequences) + 2 * head * sum(s.targets for s in sequences)
    return useful / seconds / matmul_rate(model.dtype, clock=clock)


def memory(arguments: list[str]) -> Result:
    """Peak resident memory of each arm in a process of its own."""
    ours, peer = (in_subprocess(__file__, "--memory", arm, *arguments)["mib"] for arm in ("ours", "peer"))
    return Result(
        "peak memory of scoring, weights included, float32",
        ours,
        peer,
        "MiB",
        ours / peer,
        "<= 1",
        ours <= peer,
    )


def measure_memory(arm: str, asked: list[Request]) -> None:
    model = workbench.load(MODEL, dtype="float32")
    reset_peak()
    if arm == "ours":
        Engine(model).score(asked)
    else:
        peer_arm(model, asked, 8)()
    print(json.dumps({"mib": peak_mib()}))


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--limit", type=int, default=300)
    options.add_argument("--timed", type=int, default=100, help="how many of them for the throughput")
    options.add_argument("--memory", choices=("ours", "peer"), help=argparse_hidden())
    chosen = options.parse_args()
    asked = requests(chosen.data_dir, chosen.limit)
    if chosen.memory:
        measure_memory(chosen.memory, asked[:64])
        return
    results = numbers(workbench.load(MODEL, dtype="float32"), asked)
    clock = time.process_time if chosen.cpu_time else time.perf_counter
    results += throughput(asked[: chosen.timed], chosen.repeats, clock)
    results.append(memory(["--data-dir", str(chosen.data_dir)]))
    if chosen.limit == 300:
        print(f"expected on these rows: accuracy {ACCURACY}, perplexity {PERPLEXITY}")
    report(results, machine("lm-eval"), chosen.json)


def argparse_hidden() -> str:
    import argparse

    return argparse.SUPPRESS


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    sys.exit(main())
