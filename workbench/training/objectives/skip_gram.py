"""Skip-gram with negative sampling: words and their neighbours out of a window of the corpus, beside drawn words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from workbench.errors import ConfigError
from workbench.models.ancestors.skip_gram import SkipGramConfig
from workbench.training.objectives._draw import IGNORED, Batch, Draw, Ids, SpecialIds, pad_rows

__all__ = ["SkipGram", "kept_shares", "noise_distribution"]

Shares = Float[np.ndarray, " vocabulary"]

WINDOW, NEGATIVES, SUBSAMPLE = 5, 5, 1e-3
NOISE_POWER = 0.75  # section 2.2: the unigram distribution to this power did best


def noise_distribution(counts: Ids, power: float = NOISE_POWER) -> Shares:
    """How often each id is drawn, in proportion to its ``counts`` (V,) to the ``power``; section 2.2."""
    weights = np.where(counts > 0, np.asarray(counts, dtype=np.float64) ** power, 0.0)
    shares: Shares = weights / weights.sum()
    return shares


def kept_shares(counts: Ids, threshold: float) -> Shares:
    """The chance (V,) that an occurrence of each id stays in the text: √(t / f), at most 1; equation 5.

    f is the id's share of the corpus, t the ``threshold``; 0 keeps all.
    """
    shares = np.asarray(counts, dtype=np.float64) / counts.sum()
    kept: Shares = np.ones(len(counts))
    often = shares > threshold
    if threshold > 0:
        kept[often] = np.sqrt(threshold / shares[often])
    return kept


class SkipGram:
    """Pairs of a word and a neighbour, and ``negatives`` drawn words for each pair.

    Mikolov et al. 2013, "Distributed Representations of Words and Phrases and their Compositionality", section 2.
    Occurrences of frequent words are left out first (section 2.3), so that windows reach farther, as in the authors'
    program. The window of each word is drawn between 1 and ``window`` (Mikolov et al. 2013, "Efficient Estimation of
    Word Representations in Vector Space", section 3.2). Special ids are no words. A word is a token: use a vocabulary
    of whole words, or read the vectors as those of pieces.
    ``input_ids`` (B, P) words, ``labels`` (B, P) neighbours, -100 at padding, ``negative_ids`` (B, P, K).
    """

    auto = "AutoModelForPreTraining"
    trains = SkipGramConfig

    def __init__(
        self,
        special: SpecialIds,
        length: int,
        *,
        window: int = WINDOW,
        negatives: int = NEGATIVES,
        subsample: float = SUBSAMPLE,
    ) -> None:
        for name, value in (("window", window), ("negatives", negatives)):
            if value < 1:
                raise ConfigError(f"{name} is {value}; allowed: 1 or more")
        if not 0 <= subsample < 1:
            raise ConfigError(f"subsample is {subsample}; allowed: from 0, which keeps all, to less than 1")
        if special.counts is None:
            raise ConfigError("skip-gram draws words by their frequency; give SpecialIds with counts")
        self.special, self.length = special, length
        self.reach, self.negatives = window, negatives
        counts = special.counts.copy()
        counts[list(special.reserved)] = 0
        self.noise = noise_distribution(counts).cumsum()
        self.kept = kept_shares(counts, subsample)

    @property
    def window(self) -> int:
        """All ids of a row."""
        return self.length

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch; rows with fewer pairs are padded."""
        rows = [self._pairs(draw) for draw in draws]
        width = max(1, *(len(words) for words, _, _ in rows))
        drawn = np.zeros((len(rows), width, self.negatives), dtype=np.int64)
        for row, (_, _, negatives) in enumerate(rows):
            drawn[row, : len(negatives)] = negatives
        return {
            "input_ids": pad_rows([words for words, _, _ in rows], self.special.pad, width),
            "labels": pad_rows([neighbours for _, neighbours, _ in rows], IGNORED, width),
            "negative_ids": torch.from_numpy(drawn),
        }

    def _pairs(self, draw: Draw) -> tuple[Ids, Ids, Ids]:
        """Words (P,), neighbours (P,), drawn words (P, K)."""
        rng = draw.rng()
        stays = rng.random(len(draw.ids)) < self.kept[draw.ids]
        text = draw.ids[stays & ~np.isin(draw.ids, list(self.special.reserved))].astype(np.int64)
        reach = rng.integers(1, self.reach + 1, len(text))
        places = np.arange(len(text))
        distance = np.abs(places[:, None] - places[None])
        word, neighbour = np.nonzero((distance > 0) & (distance <= reach[:, None]))
        drawn = np.searchsorted(self.noise, rng.random((len(word), self.negatives)) * self.noise[-1], "right")
        return text[word], text[neighbour], drawn
