"""Seeded choices: the one source of randomness that the grammar's rules share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

__all__ = ["Sampler"]

Item = TypeVar("Item")


class Sampler:
    """Draws that depend on the seed alone."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)

    def pick(self, options: Sequence[Item]) -> Item:
        """One of ``options``, all equally likely."""
        return self._random.choice(options)

    def weighted(self, weights: Mapping[Item, float]) -> Item:
        """One key of ``weights``, in proportion to its weight."""
        return self._random.choices(list(weights), list(weights.values()))[0]

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random.random() < probability

    def sample(self, options: Sequence[Item], count: int) -> list[Item]:
        """``count`` different members of ``options``."""
        return self._random.sample(options, count)

    def between(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return self._random.randint(low, high)
