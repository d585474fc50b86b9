"""BART's objective: write the original text, given one that was damaged in several ways."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from workbench.choices import member
from workbench.training.objectives._draw import Batch, Draw, Ids, SpecialIds, sentence_parts
from workbench.training.objectives.span_corruption import source_and_target

__all__ = ["Denoising", "Noise"]


class Noise(StrEnum):
    """Ways to damage a text; Lewis et al. 2020, "BART", section 2.2."""

    MASKING = "masking"  # random ids become the mask
    DELETION = "deletion"  # random ids vanish
    INFILLING = "infilling"  # spans, also empty ones, become one mask each
    PERMUTATION = "permutation"  # sentences in random order
    ROTATION = "rotation"  # the text starts at a random place


class Denoising:
    """Source: the damaged text. Target: the text. Both end in EOS and start with BOS where there is one.

    ``noise`` are applied in the order given; ``rate`` is the share of ids that masking, deletion and infilling
    touch, ``mean_span`` the mean of the Poisson lengths of infilling.
    """

    auto = "AutoModelForSeq2SeqLM"

    def __init__(
        self,
        special: SpecialIds,
        length: int,
        *,
        noise: Sequence[str] = (Noise.PERMUTATION, Noise.INFILLING),
        rate: float = 0.3,
        mean_span: float = 3.0,
    ) -> None:
        self.special = special
        self.length = length
        self.noise = tuple(member(Noise, name, "noise") for name in noise)
        self.rate = rate
        self.mean_span = mean_span
        self.eos = special.need("eos", "denoising")
        # a vocabulary for T5-style models has sentinels instead of a mask
        self.mask = special.mask if special.mask is not None else next(iter(special.sentinels), None)
        if self.mask is None:
            special.need("mask", "denoising")

    @property
    def window(self) -> int:
        """Ids of the text, less BOS and EOS."""
        return self.length - 1 - (self.special.bos is not None)

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch of sources and targets."""
        sources, targets = [], []
        front = [] if self.special.bos is None else [self.special.bos]
        for draw in draws:
            damaged, rng = draw.ids, draw.rng()
            for noise in self.noise:
                damaged = self._apply(noise, damaged, draw, rng)
            sources.append(np.array([*front, *damaged, self.eos], dtype=np.int64))
            targets.append(np.array([*draw.ids, self.eos], dtype=np.int64))
        return source_and_target(sources, targets, self.special.pad)

    def _apply(self, noise: Noise, ids: Ids, draw: Draw, rng: np.random.Generator) -> Ids:
        if noise is Noise.PERMUTATION:
            parts = sentence_parts(draw)
            return np.concatenate([parts[i] for i in rng.permutation(len(parts))])
        if noise is Noise.ROTATION:
            return np.roll(ids, -int(rng.integers(len(ids))))
        if noise is Noise.INFILLING:
            return self.infill(ids, rng)
        places = rng.permutation(len(ids))[: round(self.rate * len(ids))]
        if noise is Noise.DELETION:
            return np.delete(ids, places)
        damaged = ids.copy()
        damaged[places] = self.mask
        return damaged

    def infill(self, ids: Ids, rng: np.random.Generator) -> Ids:
        """Replace spans by one mask each until ``rate`` of the ids are gone; a span of length 0 inserts a mask."""
        budget, taken, hidden = round(self.rate * len(ids)), np.zeros(len(ids), dtype=bool), 0
        openings: set[int] = set()
        inserted: set[int] = set()
        while hidden < budget:
            length = min(int(rng.poisson(self.mean_span)), budget - hidden)
            start = int(rng.integers(len(ids) - length + 1))
            # spans keep a place between them, so that two do not become one
            if taken[max(0, start - 1) : start + length + 1].any() or start in inserted:
                if self._is_full(taken, length):
                    break
                continue
            if length == 0:
                inserted.add(start)
            else:
                openings.add(start)
                taken[start : start + length] = True
                hidden += length
        return self._written(ids, taken, openings, inserted)

    def _is_full(self, taken: np.ndarray, length: int) -> bool:
        """Whether no run of free places could hold another span of this length."""
        free = np.concatenate(([0], (~taken).astype(int), [0]))
        edges = np.flatnonzero(np.diff(free))
        return bool(max(edges[1::2] - edges[::2], default=0) < length + 2)

    def _written(self, ids: Ids, taken: np.ndarray, openings: set[int], inserted: set[int]) -> Ids:
        out: list[int] = []
        for place, token in enumerate(ids.tolist()):
            if place in inserted or place in openings:
                out.append(int(self.mask or 0))
            if not taken[place]:
                out.append(token)
        return np.array(out, dtype=np.int64)
