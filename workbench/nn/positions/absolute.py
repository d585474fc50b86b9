"""Absolute positions, added to the embeddings: a learned vector for each, or fixed sines and cosines."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workbench.nn.positions.base import PositionEncoding

__all__ = ["LearnedPositions", "SinusoidalPositions", "sinusoids"]


class LearnedPositions(PositionEncoding):
    """Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1; used by BERT and GPT.

    ``offset`` rows before position 0 are never used by tokens (BART keeps 2, RoBERTa its padding id + 1).
    """

    def __init__(
        self, *, width: int, max_length: int, offset: int = 0, padding_id: int | None = None
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length + offset, width, padding_idx=padding_id)
        self.offset = offset

    def add_to_embeddings(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        """(B, T, E) plus the vectors of ``positions`` (1 or B, T)."""
        return embeddings + self.table(positions + self.offset)


def sinusoids(positions: Tensor, width: int, base: float = 10000.0) -> Tensor:
    """Vaswani et al. 2017, section 3.5: sin(p / base^(2i/width)) at 2i, the cosine at 2i + 1.

    Positions (…, T) to vectors (…, T, E). The dot product of two of them depends on their distance only.
    """
    even = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    angle = positions[..., None].float() * base ** (-even / width)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)


class SinusoidalPositions(PositionEncoding):
    """No parameters, any length."""

    def __init__(self, *, width: int, base: float = 10000.0) -> None:
        super().__init__()
        self.width = width
        self.base = base

    def add_to_embeddings(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        """(B, T, E) plus the sinusoids at ``positions`` (1 or B, T)."""
        return embeddings + sinusoids(positions, self.width, self.base).to(embeddings.dtype)
