"""Nyströmformer: the map from queries to keys goes through a few landmarks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from workbench.nn.attention_functions import EffectiveMap
from workbench.nn.forms.base import EfficientAttention, Layout

__all__ = ["NystromformerAttention", "iterative_inverse"]


_ITERATIONS = 6  # section 3.2: enough in practice


def iterative_inverse(matrix: Tensor, iterations: int = _ITERATIONS) -> Tensor:
    """The Moore-Penrose inverse of (…, m, m) matrices whose rows are softmaxes, by iteration.

    Z ← Z (13 - A Z (15 - A Z (7 - A Z))) / 4 from Z = Aᵀ / |A|₁, where |A|_∞ = 1. Xiong et al. 2021, equation 11, after
    Razavi et al. 2014. Each matrix has its own |A|₁, so that it does not depend on the batch.

    Example:
        ```python
        import torch
        from workbench.nn.forms.nystromformer import iterative_inverse

        matrix = torch.eye(3).softmax(-1)
        print((iterative_inverse(matrix, 10) @ matrix).round(decimals=3))
        ```
    """
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    inverse = matrix.transpose(-1, -2) / matrix.sum(-2).amax(-1)[..., None, None]
    for _ in range(iterations):
        product = matrix @ inverse
        inner = 15 * identity - product @ (7 * identity - product)
        inverse = 0.25 * inverse @ (13 * identity - product @ inner)
    return inverse


class NystromformerAttention(EfficientAttention):
    """softmax(Q K̃ᵀ) softmax(Q̃ K̃ᵀ)⁺ softmax(Q̃ Kᵀ) V, scores divided by √d; with a convolution of V added if ``kernel``.

    Xiong et al. 2021, "Nyströmformer: A Nyström-Based Algorithm for Approximating Self-Attention", equations 13 and 14.
    Landmarks Q̃ and K̃ are means of queries and keys over segments of each text's own tokens, which differ by one token
    at most. A text of no more tokens than landmarks gets full attention, as in transformers. Rows of the map need not
    sum to one, and may be negative. ``dropout`` acts only where the map is built, as in transformers.
    """

    can_be_causal: ClassVar[bool] = False  # a landmark is a mean over later tokens too
    can_cache: ClassVar[bool] = False
    rows_sum_to_one: ClassVar[bool] = False

    def __init__(self, *, landmarks: int, kernel: int | None, **attention: Any) -> None:
        super().__init__(**attention)
        self.landmarks = landmarks
        self.convolution = None
        if kernel is not None:  # each head mixes its values with weights by distance
            size, padding = (kernel, 1), (kernel // 2, 0)
            self.convolution = nn.Conv2d(
                self.heads, self.heads, size, padding=padding, groups=self.heads, bias=False
            )

    def mean_keys(self, length: int) -> float:
        """Full attention up to the number of landmarks; else means, scores, mixing, and the inverse."""
        marks = self.landmarks
        if length <= marks:
            return float(length)
        return 3.0 * marks + 4 * _ITERATIONS * marks**3 / (2 * self.head_size * length)

    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """Through the landmarks."""
        tokens = layout.tokens(key.shape[2])[:, None, :, None]
        is_long = (layout.lengths > self.landmarks)[:, None, None, None]
        mixed = torch.zeros_like(value)
        if bool(is_long.any()):
            to_landmarks, inverse, from_landmarks = self._three_maps(query, key, layout)
            mixed = to_landmarks @ (inverse @ (from_landmarks @ value))
        if not bool(is_long.all()):
            short = min(self.landmarks, key.shape[2])
            whole = self._full(query[:, :, :short], key[:, :, :short], layout) @ value[:, :, :short]
            whole = nn.functional.pad(whole, (0, 0, 0, key.shape[2] - short))
            mixed = torch.where(is_long, mixed, whole)
        if self.convolution is not None:
            mixed = mixed + self.convolution(value * tokens)
        return mixed.transpose(1, 2)

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """The product of the three maps, and the convolution as a band."""
        keys = key.shape[2]
        to_landmarks, inverse, from_landmarks = self._three_maps(query, key, layout)
        is_long = (layout.lengths > self.landmarks)[:, None, None, None]
        weights = torch.where(
            is_long, to_landmarks @ inverse @ from_landmarks, self._full(query, key, layout)
        )
        if self.convolution is not None:
            weights = weights + self._band(keys) * layout.tokens(keys)[:, None, None]
        return EffectiveMap(weights), layout.visible(keys, is_causal=False)

    def _three_maps(self, query: Tensor, key: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
        """Queries to landmarks (B, H, T, m), the inverse among landmarks (m, m), landmarks to keys (m, T)."""
        means = self._means(key.shape[2], layout).to(key.dtype)  # (B, 1, m, T)
        query_marks, key_marks = means @ query, means @ key
        padding = ~layout.tokens(key.shape[2])[:, None, None]
        return (
            self._softmax(query @ key_marks.transpose(-1, -2)),
            self._inverse(query_marks @ key_marks.transpose(-1, -2)),
            self._softmax((query_marks @ key.transpose(-1, -2)).masked_fill(padding, _least(key))),
        )

    def _means(self, keys: int, layout: Layout) -> Tensor:
        """Which tokens each landmark is the mean of, times one over their number: (B, 1, m, K), float32 at least."""
        place = torch.arange(keys, device=layout.lengths.device)
        segment = place * self.landmarks // layout.lengths[:, None].clamp(min=1)  # (B, K)
        member = segment[:, None] == torch.arange(self.landmarks, device=place.device)[:, None]
        member = (member & layout.tokens(keys)[:, None]).to(torch.float64)
        return (member / member.sum(-1, keepdim=True).clamp(min=1))[:, None]

    def _softmax(self, scores: Tensor) -> Tensor:
        precision = torch.promote_types(scores.dtype, torch.float32)
        return (scores * self.scaling).softmax(-1, dtype=precision).to(scores.dtype)

    def _inverse(self, scores: Tensor) -> Tensor:
        precise = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return iterative_inverse(self._softmax(precise)).to(scores.dtype)

    def _full(self, query: Tensor, key: Tensor, layout: Layout) -> Tensor:
        """Softmax attention over the tokens, (B, H, Q, K)."""
        padding = ~layout.tokens(key.shape[2])[:, None, None]
        return self._softmax((query @ key.transpose(-1, -2)).masked_fill(padding, _least(key)))

    def _band(self, keys: int) -> Tensor:
        """The convolution's weight of each key for each query, (H, K, K)."""
        assert self.convolution is not None
        weight = self.convolution.weight[:, 0, :, 0]  # (H, kernel)
        place = torch.arange(keys, device=weight.device)
        offset = place - place[:, None] + weight.shape[1] // 2  # (query, key)
        inside = (offset >= 0) & (offset < weight.shape[1])
        return weight[:, offset.clamp(0, weight.shape[1] - 1)] * inside


def _least(states: Tensor) -> float:
    """A score that its softmax makes zero; scaled it stays finite."""
    return torch.finfo(states.dtype).min / 2
