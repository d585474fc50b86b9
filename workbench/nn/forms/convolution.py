"""Lightweight and dynamic convolutions: a few neighbours mixed with weights that are learned or made from the token."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.nn.attention import AttentionContext
from workbench.nn.attention_functions import EffectiveMap
from workbench.nn.forms.base import EfficientAttention, Layout

__all__ = ["ConvolutionAttention", "DynamicConvolutionAttention", "LightweightConvolutionAttention"]


class ConvolutionAttention(EfficientAttention):
    """Depthwise convolution whose kernel sums to one and is shared by the channels of a head.

    Wu et al. 2019, "Pay Less Attention with Lightweight and Dynamic Convolutions", sections 3 and 4: a gated linear
    unit, the convolution, a linear layer. ``kernel`` is its width: causal, the token itself and those before it; else
    ``kernel // 2`` before it and the others after it. There are zeros beyond the text, so the first and last rows of
    the map, which is a band, sum to less than one. Dropout acts on the kernel (DropConnect, section 3).
    """

    can_be_causal: ClassVar[bool] = True
    rows_sum_to_one: ClassVar[bool] = False
    compares: ClassVar[bool] = False

    def __init__(self, *, kernel: int, **attention: Any) -> None:
        super().__init__(**attention)
        del self.query, self.key
        self.kernel = kernel
        self.before = kernel - 1 if self.is_causal else kernel // 2
        self.gate = nn.Linear(
            self.value.in_features, self.value.out_features, bias=self.value.bias is not None
        )

    def mean_keys(self, length: int) -> float:
        """Half the kernel's width: values are summed, and no scores computed."""
        return self.kernel / 2

    @abstractmethod
    def weights(self, value: Tensor) -> Tensor:
        """The kernel (1 or B, H, 1 or Q, kernel) at tokens with values (B, H, Q, d)."""

    def forward(self, hidden: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor | None]:
        """Mix the gated values of ``hidden``, and of the cache."""
        value = self._split(self.value(hidden) * self.gate(hidden).sigmoid())  # (B, KV, T, d)
        queries = value.new_empty(len(value), self.heads, hidden.shape[1], 0)  # (B, H, Q, 0): there are none
        if context.cache is not None:  # a cache knows its length by its keys; one number each is enough
            _, value = context.cache.update(value[..., :1], value, self.layer_idx)
        output, weights = self.attend(hidden, queries, value, value, context)
        return self.output(output.flatten(2)), weights

    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """Sum over the places of the kernel."""
        value = value * layout.tokens(value.shape[2])[:, None, :, None]
        kernel = F.dropout(self.weights(value), self.dropout, self.training)
        padded = F.pad(value, (0, 0, self.before, self.kernel - 1 - self.before))
        return torch.einsum(
            "bhtdk,bhtk->bthd", padded.unfold(2, self.kernel, 1), kernel.expand(*value.shape[:3], -1)
        )

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """The kernel of each query at its keys, zero elsewhere."""
        keys, places = value.shape[2], layout.places
        at_queries = value.take_along_dim(places[:, None, :, None], dim=2)  # (B, H, Q, d)
        index = (
            places[..., None] + torch.arange(self.kernel, device=places.device) - self.before
        )  # (B, Q, kernel)
        inside = (index >= 0) & (index < layout.lengths[:, None, None])
        kernel = self.weights(at_queries) * inside[:, None]
        index = index.clamp(0, keys - 1)
        visible = inside.new_zeros(*places.shape, keys, dtype=torch.long).scatter_add(
            -1, index, inside.long()
        )
        band = kernel.new_zeros(*kernel.shape[:3], keys)
        found = band.scatter_add(-1, index[:, None].expand_as(kernel), kernel)
        return EffectiveMap(found), visible.bool()[:, None]


class LightweightConvolutionAttention(ConvolutionAttention):
    """One kernel a head, learned: softmax(w); Wu et al. 2019, section 3, equation 3."""

    def __init__(self, **attention: Any) -> None:
        super().__init__(**attention)
        self.scores = nn.Parameter(torch.empty(self.heads, self.kernel))
        nn.init.xavier_uniform_(self.scores)

    def weights(self, value: Tensor) -> Tensor:
        """The same at every token: (1, H, 1, kernel)."""
        return self.scores.softmax(-1)[None, :, None]


class DynamicConvolutionAttention(ConvolutionAttention):
    """A kernel for each token, made from the token alone: softmax(W x); Wu et al. 2019, section 4."""

    def __init__(self, **attention: Any) -> None:
        super().__init__(**attention)
        self.scores = nn.Linear(self.heads * self.head_size, self.heads * self.kernel, bias=False)

    def weights(self, value: Tensor) -> Tensor:
        """Another one at each token: (B, H, Q, kernel)."""
        scores = self.scores(value.transpose(1, 2).flatten(2))  # (B, Q, H * kernel)
        return scores.unflatten(-1, (self.heads, self.kernel)).softmax(-1).transpose(1, 2)
