"""Pegasus: whole sentences are removed and written out, which resembles summarising."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from workbench.errors import ConfigError
from workbench.training.objectives._draw import Batch, Draw, Ids, SpecialIds, sentence_parts
from workbench.training.objectives.span_corruption import source_and_target

__all__ = ["GapSentences", "principal_sentences"]


def principal_sentences(parts: Sequence[Ids], count: int) -> list[int]:
    """The ``count`` sentences most like the rest of the text by the F1 of their ids (ROUGE-1), in text order.

    Each sentence is judged by itself, and repeated ids count each time: Zhang et al. 2020, "PEGASUS", section 3.1,
    the variant "Ind-Orig".
    """
    bags = [Counter(part.tolist()) for part in parts]
    whole = sum(bags, Counter())
    scores = []
    for bag in bags:
        rest = whole - bag
        shared = (bag & rest).total()
        scores.append(2 * shared / max(1, bag.total() + rest.total()))
    best = sorted(range(len(parts)), key=lambda index: (-scores[index], index))[:count]
    return sorted(best)


class GapSentences:
    """Source: the text with each chosen sentence replaced by a mask. Target: those sentences.

    ``rate`` is the share of sentences to choose; ``choice`` is ``principal``, ``lead`` or ``random``. A text of one
    sentence is split in its middle and counts as two.
    """

    auto = "AutoModelForSeq2SeqLM"

    def __init__(
        self, special: SpecialIds, length: int, *, rate: float = 0.3, choice: str = "principal"
    ) -> None:
        if choice not in ("principal", "lead", "random"):
            raise ConfigError(f"choice of gap sentences is {choice!r}; allowed: principal, lead, random")
        self.special = special
        self.length = length
        self.rate = rate
        self.choice = choice
        self.eos = special.need("eos", "gap-sentences")
        mask = special.mask if special.mask is not None else next(iter(special.sentinels), None)
        self.mask = special.need("mask", "gap-sentences") if mask is None else mask

    @property
    def window(self) -> int:
        """Ids of the text, less EOS."""
        return self.length - 1

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch of sources and targets."""
        sources, targets = [], []
        for draw in draws:
            parts = sentence_parts(draw)
            if len(parts) == 1:
                parts = np.array_split(parts[0], 2)
            chosen = self._chosen(parts, draw.rng())
            source = [[self.mask] if i in chosen else part.tolist() for i, part in enumerate(parts)]
            sources.append(np.array([*(token for part in source for token in part), self.eos]))
            targets.append(np.array([*(token for i in chosen for token in parts[i].tolist()), self.eos]))
        return source_and_target(sources, targets, self.special.pad)

    def _chosen(self, parts: Sequence[Ids], rng: np.random.Generator) -> list[int]:
        count = min(max(1, round(self.rate * len(parts))), len(parts) - 1)
        if self.choice == "lead":
            return list(range(count))
        if self.choice == "random":
            return sorted(int(i) for i in rng.permutation(len(parts))[:count])
        return principal_sentences(parts, count)
