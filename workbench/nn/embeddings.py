"""From token ids to the first hidden states."""

from __future__ import annotations

from torch import Tensor, nn

from workbench.nn.positions.base import PositionEncoding

__all__ = ["Embeddings"]


class Embeddings(nn.Module):
    """Tokens, positions and segments added, normalised, and projected to the width of the model.

    Vaswani et al. 2017, section 3.4 (``scale`` is √D there); segments: Devlin et al. 2019, "BERT", figure 2;
    a ``size`` below the width: Lan et al. 2020, "ALBERT", section 3.1.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        width: int,
        positions: PositionEncoding,
        norm: nn.Module,
        size: int | None = None,
        segments: int = 0,
        scale: float = 1.0,
        dropout: float = 0.0,
        padding_id: int | None = None,
    ) -> None:
        super().__init__()
        size = size or width
        self.tokens = nn.Embedding(vocabulary, size, padding_idx=padding_id)
        self.segments = nn.Embedding(segments, size) if segments else None
        self.positions = positions
        self.norm = norm
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Identity() if size == width else nn.Linear(size, width)
        self.scale = scale

    def look_up(self, ids: Tensor) -> Tensor:
        """Vectors of the tokens alone: ids (B, T) to (B, T, E)."""
        vectors = self.tokens(ids)
        return vectors if self.scale == 1.0 else vectors * self.scale

    def forward(self, vectors: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """Token vectors (B, T, E) at ``positions`` (1 or B, T) of ``segments`` (B, T) to (B, T, D)."""
        if self.segments is not None:
            vectors = vectors + (self.segments.weight[0] if segments is None else self.segments(segments))
        vectors = self.positions.add_to_embeddings(vectors, positions)
        return self.project(self.dropout(self.norm(vectors)))
