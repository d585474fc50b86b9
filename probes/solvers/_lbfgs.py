"""The curvature that limited-memory BFGS remembers, for many problems side by side."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["Memory"]

_LENGTH = 16


class Memory:
    """The last steps and changes of gradient of P problems, each an array (P, K, W)."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self._steps = torch.zeros(0, *shape, device=device)
        self._changes = torch.zeros(0, *shape, device=device)
        self._inverse = torch.zeros(0, shape[0], device=device)  # 1 / step'change; 0 where nothing is kept

    def keep(self, chosen: Tensor) -> None:
        """Only the chosen problems."""
        self._steps, self._changes = self._steps[:, chosen], self._changes[:, chosen]
        self._inverse = self._inverse[:, chosen]

    def push(self, step: Tensor, change: Tensor, moved: Tensor) -> None:
        """Remember a pair for the problems that ``moved``; the others get one that counts for nothing."""
        if not bool(moved.any()):
            return
        product = (step * change).sum((1, 2))
        usable = moved & (product > 1e-10 * change.square().sum((1, 2)))
        inverse = torch.where(usable, 1 / product.clamp_min(1e-30), 0.0)
        start = 1 if len(self._steps) == _LENGTH else 0
        self._steps = torch.cat([self._steps[start:], step[None]])
        self._changes = torch.cat([self._changes[start:], change[None]])
        self._inverse = torch.cat([self._inverse[start:], inverse[None]])

    def apply(self, gradient: Tensor, first: Callable[[Tensor], Tensor]) -> Tensor:
        """The inverse Hessian times ``gradient``: the two-loop recursion around ``first``, scaled to the last pair."""
        result = gradient.clone()
        factors: list[Tensor] = []
        for k in reversed(range(len(self._steps))):
            factor = self._inverse[k] * (self._steps[k] * result).sum((1, 2))
            result -= factor[:, None, None] * self._changes[k]
            factors.append(factor)
        result = first(result) * self._scale(first)
        for k, factor in enumerate(reversed(factors)):
            back = self._inverse[k] * (self._changes[k] * result).sum((1, 2))
            result += (factor - back)[:, None, None] * self._steps[k]
        return result

    def _scale(self, first: Callable[[Tensor], Tensor]) -> Tensor | float:
        """step'change / change'first(change) of the last pair: curvature shrinks as probabilities sharpen."""
        if not len(self._steps):
            return 1.0
        change, inverse = self._changes[-1], self._inverse[-1]
        expected = inverse * (change * first(change)).sum((1, 2))
        return torch.where(expected > 0, 1 / expected.clamp_min(1e-30), 1.0)[:, None, None]
