"""Surprisal of tokens and words beside minicons: the same numbers, and how fast.

python benchmarks/surprisal.py [--sentences 200] [--repeats 3] [--cpu-time] [--json FILE]

Sentences of the development part of English EWT, one thread, float32, minicons at its best batch size of those tried;
its first token is not scored, which is ``first_token="unscored"`` here. Words by the rule of Pimentel & Meister (2024)
are compared with minicons' ``bow_correction`` from the third word to the last but one: it does not correct the
word behind a first word of one token, and the last word otherwise. For this comparison a word begins with a token that
begins with a blank, as there; ours counts other white space and the end of the text too, since these end a word.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from _frame import Result, alternate, machine, parser, rate_result, report
from minimal_pairs import for_minicons

import workbench
from workbench.data.conllu import read_conllu
from workbench.models import LoadedModel
from workbench.scoring import Surprisal

MODEL = "smollm2-135m"
PEER_BATCH_SIZES = (1, 8, 32)


def minicons_arm(
    model: Any, texts: Sequence[str], batch_size: int, **options: Any
) -> Callable[[], list[np.ndarray]]:
    """Bits of each text's tokens."""
    from minicons.scorer import IncrementalLMScorer

    scorer = IncrementalLMScorer(model.model, "cpu", tokenizer=for_minicons(model.tokenizer))

    def run() -> list[np.ndarray]:
        found: list[np.ndarray] = []
        for start in range(0, len(texts), batch_size):
            batch = list(texts[start : start + batch_size])
            scores = scorer.token_score(batch, surprisal=True, base_two=True, **options)
            found += [np.array([bits for _, bits in tokens]) for tokens in scores]
        return found

    return run


def blanks(model: LoadedModel) -> torch.Tensor:
    """The tokens (V,) that begin with a blank."""
    begins = torch.zeros(model.config.vocab_size, dtype=torch.bool)
    begins[[number for piece, number in model.tokenizer.get_vocab().items() if piece.startswith("Ġ")]] = True
    return begins


def inner_words(found: Surprisal, bits: np.ndarray) -> np.ndarray:
    """Sums of ``bits`` over the words from the third to the last but one."""
    frame = found.to_frame().assign(bits=bits).dropna(subset=["word_number"])
    return frame.groupby("word_number")["bits"].sum().to_numpy()[2:-1]


def differences(model: LoadedModel, texts: Sequence[str]) -> list[Result]:
    """Tokens, and words whose ends count (but for each text's first two and last)."""
    ours, theirs = workbench.surprisal(model, texts, first_token="unscored"), minicons_arm(model, texts, 8)()
    gap = max(np.abs(a.bits[1:] - b[1:]).max() for a, b in zip(ours, theirs, strict=True))
    with patch.object(sys.modules["workbench.scoring.surprisal"], "_begins", blanks):
        trailing = workbench.surprisal(model, texts, first_token="unscored", word_boundary="trailing")
    corrected = minicons_arm(model, texts, 8, bow_correction=True)()
    words = max(
        np.abs(one.words()["bits"].to_numpy()[2:-1] - inner_words(one, bits)).max()
        for one, bits in zip(trailing, corrected, strict=True)
    )
    return [
        Result("largest difference of a token", float(gap), None, "bits", None, "<= 1e-4", bool(gap <= 1e-4)),
        Result(
            "of a word by bow_correction", float(words), None, "bits", None, "<= 1e-4", bool(words <= 1e-4)
        ),
    ]


def throughput(model: LoadedModel, texts: Sequence[str], repeats: int, clock: Callable[[], float]) -> Result:
    """Sentences a second; ours computes entropies and ranks too."""
    timed = {
        n: alternate(lambda: None, minicons_arm(model, texts, n), 1, warmup=0, clock=clock)[1][0]
        for n in PEER_BATCH_SIZES
    }
    best = min(timed, key=lambda n: timed[n])
    print("minicons:", {n: f"{len(texts) / t:.1f} sentences/s" for n, t in timed.items()})
    ours, peer = alternate(
        lambda: workbench.surprisal(model, texts, first_token="unscored"),
        minicons_arm(model, texts, best),
        repeats,
        clock=clock,
    )
    return rate_result("sentences, with entropy and rank", len(texts), "sentences/s", ours, peer, 1.0)


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--sentences", type=int, default=200)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    model = workbench.load(MODEL, dtype="float32")
    trees = read_conllu(chosen.data_dir / "ud" / "en_ewt-ud-dev.conllu")
    texts = [tree.text for tree in trees if len(tree.text.split()) > 3][: chosen.sentences]
    clock = time.process_time if chosen.cpu_time else time.perf_counter
    results = [*differences(model, texts), throughput(model, texts, chosen.repeats, clock)]
    report(results, machine("minicons"), chosen.json)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    sys.exit(main())
