"""ALiBi: scores fall linearly with distance, at a slope of its own for each head."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workbench.nn.positions.base import PositionEncoding

__all__ = ["AlibiPositions", "alibi_slopes"]


def alibi_slopes(heads: int) -> list[float]:
    """Press et al. 2022, "Train Short, Test Long", section 3: for n heads 2^(-8/n), 2^(-16/n), …, 2^-8.

    Where n is no power of two, the slopes of the next lower power, then every second one of the next higher.
    """
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * i / lower) for i in range(1, lower + 1)]
    between = [2.0 ** (-4.0 * i / lower) for i in range(1, 2 * lower + 1, 2)]
    return slopes + between[: heads - lower]


class AlibiPositions(PositionEncoding):
    """No parameters, any length; keys on either side of a query are penalised alike."""

    def __init__(self, *, heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(heads)

    def bias_scores(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """Positions (Q,) and (K,) to -slope * |query - key|, (1, H, Q, K)."""
        distance = (key_positions[None, :] - query_positions[:, None]).abs()
        slopes = torch.tensor(self.slopes, device=distance.device)
        return -slopes[None, :, None, None] * distance
