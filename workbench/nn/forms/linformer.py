"""Linformer: keys and values are projected along the text to a fixed number of rows."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from workbench.nn.attention_functions import EffectiveMap
from workbench.nn.forms.base import EfficientAttention, Layout

__all__ = ["LengthProjection", "LinformerAttention"]


class LengthProjection(nn.Linear):
    """From the places of a text to a fixed number of rows, a type of its own for its initial weights.

    They are normal with variance 1 / rows (Wang et al. 2020, theorem 1), so that inner products of what is projected
    keep their size whatever the length; those that suit a matrix of the model's width would leave next to nothing.
    """

    @property
    def initial_std(self) -> float:
        """Standard deviation of the initial weights."""
        return float(self.out_features) ** -0.5


class LinformerAttention(EfficientAttention):
    """softmax(Q (E K)ᵀ / √d) F V; Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", equation 7.

    E and F (rank, length) are learned for each layer and shared by its heads ("headwise sharing", section 4). A shorter
    text uses their first columns. With the rank equal to the length and E = F = 1 it is full attention. The effective
    map is softmax(…) F: its rows need not sum to one, and it may be negative. Dropout acts on the weights over the
    projected rows.
    """

    can_be_causal: ClassVar[bool] = False  # a projected row mixes all tokens, later ones too
    can_cache: ClassVar[bool] = False
    has_places: ClassVar[bool] = True
    rows_sum_to_one: ClassVar[bool] = False

    def __init__(self, *, rank: int, max_length: int, **attention: Any) -> None:
        super().__init__(**attention)
        self.key_projection = LengthProjection(max_length, rank, bias=False)
        self.value_projection = LengthProjection(max_length, rank, bias=False)

    def mean_keys(self, length: int) -> float:
        """The projected rows, and as much for projecting."""
        return 2.0 * self.key_projection.out_features

    def _weights(self, query: Tensor, key: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Weights over the projected rows (B, H, Q, R), and F with zeros at padding, (B, 1, R, K)."""
        keys = key.shape[2]
        tokens = layout.tokens(keys)[:, None, None]  # (B, 1, 1, K)
        key_rows = (self.key_projection.weight[:, :keys] * tokens) @ key  # (B, H, R, d)
        weights = (query @ key_rows.transpose(-1, -2) * self.scaling).softmax(-1)
        return weights, self.value_projection.weight[:, :keys] * tokens

    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """Through the projected rows."""
        weights, projection = self._weights(query, key, layout)
        weights = nn.functional.dropout(weights, self.dropout, self.training)
        return (weights @ (projection @ value)).transpose(1, 2)

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """Weights over the rows, times F."""
        weights, projection = self._weights(query, key, layout)
        return EffectiveMap(weights @ projection), layout.visible(key.shape[2], is_causal=False)
