"""The interface of all position encodings: add to embeddings, rotate queries and keys, or bias scores."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

__all__ = ["Angles", "PositionEncoding"]


class Angles(NamedTuple):
    """Cosines and sines of the angles by which queries and keys turn, each (1 or B, 1, T, rotated size)."""

    cos: Tensor
    sin: Tensor


class PositionEncoding(nn.Module):
    """No positions at all: every method leaves things as they are. Each encoding overrides what it needs."""

    def add_to_embeddings(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        """Embeddings (B, T, E) of tokens at ``positions`` (1 or B, T), with their positions in them."""
        return embeddings

    def angles(self, positions: Tensor, like: Tensor) -> Angles | None:
        """The angles at ``positions`` (1 or B, T) in the type of ``like``; once per forward pass."""
        return None

    def rotate_query_key(self, query: Tensor, key: Tensor, angles: Angles | None) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, d) and keys (B, KV, T, d), turned by their positions."""
        return query, key

    def bias_scores(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """What is added to the scores of queries at (Q,) and keys at (K,): (1, H, Q, K), or ``None``."""
        return None
