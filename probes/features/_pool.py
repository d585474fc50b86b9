"""Tokens to vectors of places, and sentences to batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.shapes import Array

__all__ = ["Taker", "batches_by_length", "runs"]


class Taker:
    """Picks or averages the tokens of each place; ``spans`` are (row of the batch, first token, end)."""

    def __init__(
        self, pool: str, spans: Sequence[tuple[int, int, int]], width: int, device: torch.device
    ) -> None:
        self._pool = pool
        row, start, stop = (torch.tensor(column, device=device) for column in zip(*spans, strict=True))
        first = row * width + start
        self._single = row * width + stop - 1 if pool == "last" else first
        self._counts = stop - start
        self._owner = torch.repeat_interleave(torch.arange(len(spans), device=device), self._counts)
        begins = self._counts.cumsum(0) - self._counts
        within = torch.arange(len(self._owner), device=device) - begins[self._owner]
        self._tokens = first[self._owner] + within

    def __call__(self, layer: Float[Tensor, "batch token width"]) -> Float[Tensor, "place width"]:
        """The vector of each place by the policy."""
        if self._pool == "mean":
            return self.mean(layer)
        return layer.reshape(-1, layer.shape[-1]).index_select(0, self._single)

    def mean(self, layer: Float[Tensor, "batch token width"]) -> Float[Tensor, "place width"]:
        """The mean over each place's tokens."""
        picked = layer.reshape(-1, layer.shape[-1]).index_select(0, self._tokens)
        total = picked.new_zeros(len(self._counts), picked.shape[1])
        return total.index_add_(0, self._owner, picked) / self._counts[:, None]


def batches_by_length(lengths: dict[int, int], budget: int, equal: bool = False) -> Iterator[list[int]]:
    """Sentences of like length (``equal``: of one) together, the longest first, up to ``budget`` padded tokens."""
    batch: list[int] = []
    for sentence in sorted(lengths, key=lambda s: -lengths[s]):
        full = bool(batch) and lengths[batch[0]] * (len(batch) + 1) > budget
        if full or (equal and batch and lengths[batch[0]] != lengths[sentence]):
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch


def runs(rows: Array, valid: Array) -> Iterator[tuple[int, int]]:
    """Positions (first, end) of maximal runs of valid places whose ``rows`` are consecutive numbers."""
    kept = np.flatnonzero(valid)
    breaks = np.flatnonzero((np.diff(kept) != 1) | (np.diff(rows[kept]) != 1)) + 1
    for part in np.split(kept, breaks):
        if len(part):
            yield int(part[0]), int(part[-1]) + 1
