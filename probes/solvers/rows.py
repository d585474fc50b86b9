"""Feature rows read in chunks, standardised as they come, so that no standardised copy of a corpus is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.shapes import Array

__all__ = ["Rows", "Scaling", "scaling_of"]

ROWS_PER_CHUNK = 4096
# Standardised rows up to this size are kept between passes, larger ones read again each time.
_MOST_BYTES_IN_MEMORY = 512 * 2**20


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of each feature; a constant feature is divided by one."""

    mean: Float[Array, " width"]
    deviation: Float[Array, " width"]


@dataclass(eq=False)
class Rows:
    """N feature vectors of one layer: ``read(start, stop)`` gives some of them, as float32 (n, D).

    Iterating gives ``(slice, chunk)`` with the chunks standardised by ``scaling``, on ``device``.
    """

    read: Callable[[int, int], Array]
    count: int
    width: int
    scaling: Scaling
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    _kept: list[Tensor] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, features: Array, scaling: Scaling | None = None, device: str | torch.device = "cpu") -> Rows:
        """Rows of a matrix (N, D); its own mean and deviation by default."""
        matrix = np.asarray(features, dtype=np.float32)

        def read(start: int, stop: int) -> Array:
            return matrix[start:stop]

        known = scaling or scaling_of(read, len(matrix), matrix.shape[1])
        return cls(read, len(matrix), matrix.shape[1], known, torch.device(device))

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        keep = self.count * self.width * 4 <= _MOST_BYTES_IN_MEMORY
        for number, start in enumerate(range(0, self.count, ROWS_PER_CHUNK)):
            stop = min(start + ROWS_PER_CHUNK, self.count)
            if number < len(self._kept):
                yield slice(start, stop), self._kept[number]
                continue
            chunk = self._standardised(start, stop)
            if keep:
                self._kept.append(chunk)
            yield slice(start, stop), chunk

    def _standardised(self, start: int, stop: int) -> Tensor:
        values = (self.read(start, stop) - self.scaling.mean) / self.scaling.deviation
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(self.device)


def scaling_of(read: Callable[[int, int], Array], count: int, width: int) -> Scaling:
    """Scaling that gives each of ``count`` rows' features mean 0 and variance 1 (population variance)."""
    total, squares = np.zeros(width), np.zeros(width)
    shift = read(0, min(1, count)).astype(np.float64).reshape(-1, width).sum(0)  # against cancellation
    for start in range(0, count, ROWS_PER_CHUNK):
        chunk = read(start, min(start + ROWS_PER_CHUNK, count)).astype(np.float64) - shift
        total += chunk.sum(0)
        squares += np.square(chunk).sum(0)
    mean = total / max(count, 1)
    variance = np.maximum(squares / max(count, 1) - np.square(mean), 0.0)
    deviation = np.sqrt(variance)
    deviation[deviation <= 1e-6 * (1 + np.abs(mean + shift))] = 1.0
    return Scaling((mean + shift).astype(np.float32), deviation.astype(np.float32))
