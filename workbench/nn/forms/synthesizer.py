"""Synthesizer: attention weights that are learned or made from one token alone, without comparing tokens."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from workbench.nn.attention import AttentionContext
from workbench.nn.attention_functions import EffectiveMap
from workbench.nn.forms.base import EfficientAttention, Layout

__all__ = [
    "DenseSynthesizerAttention",
    "FactorisedSynthesizerAttention",
    "FixedSynthesizerAttention",
    "PerHead",
    "RandomSynthesizerAttention",
    "SynthesizerAttention",
]


class PerHead(nn.Module):
    """A linear layer of its own for each head: (B, T, H · d) to (B, H, T, size)."""

    def __init__(self, heads: int, width: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, width, size))
        self.bias = nn.Parameter(torch.zeros(heads, 1, size))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, hidden: Tensor, size: int | None = None) -> Tensor:
        """The first ``size`` outputs, or all."""
        heads, width = self.weight.shape[:2]
        by_head = hidden.unflatten(-1, (heads, width)).transpose(1, 2)
        return by_head @ self.weight[..., :size] + self.bias[..., :size]


class SynthesizerAttention(EfficientAttention):
    """softmax(B) V with scores B that no key had a part in; a subclass says what they are.

    Tay et al. 2021, "Synthesizer: Rethinking Self-Attention for Transformer Models", section 3. There are no queries
    and keys. Scores are learned for each place among the keys, which bounds the length of a text. The cost is still
    that of the whole map.
    """

    can_be_causal: ClassVar[bool] = True
    has_places: ClassVar[bool] = True
    compares: ClassVar[bool] = False

    def __init__(self, *, max_length: int, **attention: Any) -> None:
        super().__init__(**attention)
        del self.query, self.key
        self.max_length = max_length

    def mean_keys(self, length: int) -> float:
        """Values are mixed, and no queries compared with keys: half of what a key costs elsewhere."""
        return length / 2

    @abstractmethod
    def scores(self, hidden: Tensor, keys: int, layout: Layout) -> Tensor:
        """Scores (B, H, Q, K) of hidden states (B, Q, D) for so many keys."""

    def forward(self, hidden: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor | None]:
        """Mix the values of ``hidden``, and of the cache."""
        value = self._split(self.value(hidden))  # (B, KV, T, d)
        queries = value.new_empty(len(value), self.heads, hidden.shape[1], 0)  # (B, H, Q, 0): there are none
        if context.cache is not None:  # a cache knows its length by its keys; one number each is enough
            _, value = context.cache.update(value[..., :1], value, self.layer_idx)
        output, weights = self.attend(hidden, queries, value, value, context)
        return self.output(output.flatten(2)), weights

    def _weights(self, hidden: Tensor, keys: int, layout: Layout) -> tuple[Tensor, Tensor]:
        """Softmax of the scores over visible keys (B, H, Q, K), and which those are (B, 1, Q, K)."""
        visible = layout.visible(keys, is_causal=self.is_causal)
        scores = self.scores(hidden, keys, layout)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        return scores.softmax(-1).to(hidden.dtype), visible

    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """The map, times the values."""
        weights, _ = self._weights(hidden, value.shape[2], layout)
        weights = nn.functional.dropout(weights, self.dropout, self.training)
        return (weights @ value).transpose(1, 2)

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """Softmax of the scores."""
        weights, visible = self._weights(hidden, value.shape[2], layout)
        return EffectiveMap(weights), visible


class DenseSynthesizerAttention(SynthesizerAttention):
    """Scores for all places from the token itself, W₂ ReLU(W₁ x); Tay et al. 2021, section 3.1."""

    def __init__(self, **attention: Any) -> None:
        super().__init__(**attention)
        inner = self.heads * self.head_size
        self.inner = nn.Linear(self.value.in_features, inner)
        self.places = PerHead(self.heads, self.head_size, self.max_length)

    def mean_keys(self, length: int) -> float:
        """A score for each place from the token, and the values."""
        return float(length)

    def scores(self, hidden: Tensor, keys: int, layout: Layout) -> Tensor:
        """W₂ ReLU(W₁ x)."""
        return self.places(self.inner(hidden).relu(), keys)


class FactorisedSynthesizerAttention(SynthesizerAttention):
    """Scores from two shorter rows made of the token itself, a times b for all pairs; Tay et al. 2021, section 3.3.

    ``factor`` is the size of the first row; the second one has max_length / factor, so that pairs stand for places.
    """

    def __init__(self, *, factor: int, **attention: Any) -> None:
        super().__init__(**attention)
        inner = self.heads * self.head_size
        self.inner = nn.Linear(self.value.in_features, inner)
        self.first = PerHead(self.heads, self.head_size, factor)
        self.second = PerHead(self.heads, self.head_size, self.max_length // factor)

    def scores(self, hidden: Tensor, keys: int, layout: Layout) -> Tensor:
        """The outer product of the two rows, read row by row."""
        inner = self.inner(hidden).relu()
        first, second = self.first(inner), self.second(inner)  # (B, H, Q, a), (B, H, Q, b)
        return (first[..., :, None] * second[..., None, :]).flatten(-2)[..., :keys]


class RandomSynthesizerAttention(SynthesizerAttention):
    """Scores that are learned for each pair of places, the same in all texts; Tay et al. 2021, section 3.2."""

    def __init__(self, **attention: Any) -> None:
        super().__init__(**attention)
        self.pairs = nn.Embedding(self.max_length, self.heads * self.max_length)

    def scores(self, hidden: Tensor, keys: int, layout: Layout) -> Tensor:
        """The learned rows of the queries' places."""
        rows = self.pairs(layout.places).unflatten(-1, (self.heads, self.max_length))
        return rows[..., :keys].transpose(1, 2)


class FixedSynthesizerAttention(SynthesizerAttention):
    """As :class:`RandomSynthesizerAttention`, with scores that stay as they were drawn; Tay et al. 2021, section 3.2.

    They are normal, drawn from the seed and the layer's number, and saved with the weights.
    """

    pairs: Tensor

    def __init__(self, *, seed: int, **attention: Any) -> None:
        super().__init__(**attention)
        generator = torch.Generator().manual_seed(seed + self.layer_idx)
        shape = (self.max_length, self.heads, self.max_length)
        self.register_buffer("pairs", torch.randn(shape, generator=generator, device="cpu"))

    def scores(self, hidden: Tensor, keys: int, layout: Layout) -> Tensor:
        """The drawn rows of the queries' places."""
        return self.pairs[layout.places][..., :keys].transpose(1, 2)
