"""A learned vector for each position."""

from __future__ import annotations

from torch import Tensor, nn

from workbench.nn.positions.base import PositionEncoding

__all__ = ["LearnedPositions"]


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
