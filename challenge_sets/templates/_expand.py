"""Which combinations of slot entries a template is expanded to: all of them, or a seeded sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np
from jaxtyping import Int

__all__ = ["FULL_LIMIT", "combinations", "flat_indices"]

FULL_LIMIT = 1_000_000
_CHUNK = 50_000


def flat_indices(total: int, *, count: int | None, seed: int) -> Iterator[list[int]]:
    """Chunks of different numbers below ``total``: all in order without ``count``, else in random order.

    Above a million combinations the random order is a stream of draws that ends after 50 times ``count``.
    """
    if count is None:
        order: Sequence[int] = range(total)
    elif total <= FULL_LIMIT:
        order = np.random.default_rng(seed).permutation(total).tolist()
    else:
        yield from _stream(total, count=count, seed=seed)
        return
    step = _CHUNK if count is None else max(1, min(_CHUNK, count))
    for start in range(0, total, step):
        yield list(order[start : start + step])


def _stream(total: int, *, count: int, seed: int) -> Iterator[list[int]]:
    draw = _drawer(total, seed)
    seen: set[int] = set()
    step = max(1, min(_CHUNK, count))
    for _ in range(50 * math.ceil(count / step)):
        chunk = [index for index in dict.fromkeys(draw(step)) if index not in seen]
        seen.update(chunk)
        yield chunk


def _drawer(total: int, seed: int) -> Callable[[int], list[int]]:
    """A function that draws so many numbers below ``total``, from NumPy where 64 bits hold them."""
    if total < 2**63:
        generator = np.random.default_rng(seed)
        return lambda size: generator.integers(0, total, size).tolist()
    random = Random(seed)
    return lambda size: [random.randrange(total) for _ in range(size)]


def combinations(flat: Sequence[int], sizes: Sequence[int]) -> list[Int[np.ndarray, " case"]]:
    """For each slot the entry index in each combination; the last slot varies fastest."""
    columns: list[Int[np.ndarray, " case"]] = []
    # Python integers where the number of combinations leaves 64 bits.
    remaining = np.asarray(flat, dtype=object if math.prod(sizes) >= 2**63 else np.int64)
    for size in reversed(sizes):
        columns.append((remaining % size).astype(np.int64))
        remaining = remaining // size
    return columns[::-1]
