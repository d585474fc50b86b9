"""Rotary positions: queries and keys turn with their position, so scores depend on distance only."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.nn.positions.base import Angles, PositionEncoding

__all__ = ["RotaryPositions"]


class RotaryPositions(PositionEncoding):
    """Su et al. 2021, "RoFormer", equation 34: pair i of a head turns by position * base^(-2i / size).

    ``interleaved`` pairs neighbours (0, 1), (2, 3), … as in the paper; otherwise the halves are paired,
    (0, size/2), (1, size/2 + 1), …, as Llama does. A ``fraction`` below 1 leaves the rest of the head
    unturned (Black et al. 2022, "GPT-NeoX-20B", section 2.1).
    """

    def __init__(
        self, *, head_size: int, base: float = 10000.0, interleaved: bool = False, fraction: float = 1.0
    ) -> None:
        super().__init__()
        self.size = int(head_size * fraction)
        self.base = base
        self.interleaved = interleaved
        self.is_partial = self.size < head_size

    def angles(self, positions: Tensor, like: Tensor) -> Angles:
        """Cosines and sines (1 or B, 1, T, size), laid out as the pairs are."""
        even = torch.arange(0, self.size, 2, device=positions.device, dtype=torch.float32)
        frequencies = 1.0 / (self.base ** (even / self.size))
        angle = positions[:, None, :, None].float() * frequencies  # (B, 1, T, size / 2)
        angle = angle.repeat_interleave(2, dim=-1) if self.interleaved else torch.cat((angle, angle), dim=-1)
        return Angles(angle.cos().to(like.dtype), angle.sin().to(like.dtype))

    def rotate_query_key(self, query: Tensor, key: Tensor, angles: Angles | None) -> tuple[Tensor, Tensor]:
        """Both turned by the angles of their positions."""
        assert angles is not None
        return self._rotate(query, angles), self._rotate(key, angles)

    def _rotate(self, states: Tensor, angles: Angles) -> Tensor:
        if self.is_partial:
            turned = self._turn(states[..., : self.size], angles)
            return torch.cat((turned, states[..., self.size :]), dim=-1)
        return self._turn(states, angles)

    def _turn(self, states: Tensor, angles: Angles) -> Tensor:
        """(x, y) to (x cos - y sin, y cos + x sin) for each pair (x, y)."""
        if self.interleaved:
            x, y = states[..., ::2], states[..., 1::2]
            partner = torch.stack((-y, x), dim=-1).flatten(-2)
        else:
            x, y = states.chunk(2, dim=-1)
            partner = torch.cat((-y, x), dim=-1)
        return states * angles.cos + partner * angles.sin
