"""What the efficient forms of attention share: padding changes nothing, and each gives its map on request.

An efficient form computes the same heads in one of two ways. ``efficient`` never holds the map from queries to keys;
``effective_map`` builds it. The map is taken where an attention function can be handed weights (eager attention, and
the one that observes), so traces, head views and interventions work on every form. Elsewhere, as in training, the
efficient way is taken.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from workbench.nn.attention import Attention, AttentionContext
from workbench.nn.attention_functions import (
    AttentionFunction,
    EffectiveMap,
    eager_attention,
    repeat_key_value,
)

__all__ = ["EfficientAttention", "Layout"]


@dataclass(frozen=True)
class Layout:
    """Where tokens stand: those of a row come first, padding after them.

    ``lengths`` (B,) counts the tokens; keys from there on are padding. ``places`` (B, Q) are those of the queries among
    the keys: 0 … Q - 1 in a pass over all tokens, the last ones in a step over cached keys.
    """

    lengths: Tensor
    places: Tensor

    def tokens(self, keys: int) -> Tensor:
        """Which keys are tokens, (B, K)."""
        return torch.arange(keys, device=self.lengths.device) < self.lengths[:, None]

    def visible(self, keys: int, *, is_causal: bool) -> Tensor:
        """Keys that are tokens and, if causal, not after the query: (B, 1, Q, K)."""
        seen = self.tokens(keys)[:, None, None]
        if is_causal:
            seen = seen & (torch.arange(keys, device=self.places.device) <= self.places[:, None, :, None])
        return seen.expand(-1, -1, self.places.shape[1], -1)


class EfficientAttention(Attention):
    """Multi-head self-attention that need not compare each query with each key; a subclass is one form."""

    can_be_causal: ClassVar[bool] = False
    can_cache: ClassVar[bool] = (
        True  # whether a step over cached keys gives what a pass over all tokens gives
    )
    has_places: ClassVar[bool] = False  # whether weights are learned for each place, which bounds the length
    rows_sum_to_one: ClassVar[bool] = True  # whether the map's rows are distributions over the keys
    compares: ClassVar[bool] = True  # whether it has queries and keys

    def mean_keys(self, length: int) -> float:
        """Keys whose scores and values each query takes, on average in a text of ``length`` tokens.

        A form that does other work counts it in the same unit: two products for each width of a head.
        """
        return (length + 1) / 2 if self.is_causal else float(length)

    @abstractmethod
    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """Heads (B, T, H, d) of a pass over all tokens.

        ``hidden`` is (B, T, D); ``query``, ``key`` and ``value`` are (B, H, T, d), keys and values repeated for grouped
        heads, with whatever else :meth:`project` put behind them. Rows of padding may get anything finite.
        """

    @abstractmethod
    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """The map (B, H, Q, K) that gives the same heads, and which keys each query may see (B, 1 or H, Q, K).

        Shapes as in :meth:`efficient`; in a step over cached keys there are fewer queries than keys.
        """

    def attend(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext
    ) -> tuple[Tensor, Tensor | None]:
        """Heads (B, Q, H, d), and the map (B, H, Q, K) where the context's function takes one."""
        shared = (key, value)  # the function repeats them itself
        key, value = (repeat_key_value(states, self.num_key_value_groups) for states in shared)
        is_step, takes_map = query.shape[2] < key.shape[2], _takes_map(context.function)
        order, layout = _Order(context.tokens), _layout(query, key, context.tokens)
        keys = (order.front(key, 2), order.front(value, 2))
        queries = (hidden, query) if is_step else (order.front(hidden, 1), order.front(query, 2))
        if not is_step and not takes_map:
            return order.back(self.efficient(*queries, *keys, layout), 1), None
        found, visible = self.effective_map(*queries, *keys, layout)
        function = context.function if takes_map else eager_attention
        return function(
            self,
            query[..., : self.head_size],
            shared[0][..., : self.head_size],
            shared[1][..., : self.head_size],
            order.map_back(visible, is_step),
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            effective=order.effective_back(found, is_step),
        )


class _Order:
    """Moves the tokens of each row to its front, and results back to where they stood."""

    def __init__(self, tokens: Tensor | None) -> None:
        self.index = None if tokens is None else (~tokens).long().argsort(dim=-1, stable=True)  # (B, K)

    def front(self, states: Tensor, axis: int) -> Tensor:
        """``states`` (B, …) with tokens first along ``axis``."""
        return states if self.index is None else _take(states, self.index, axis)

    def back(self, states: Tensor, axis: int) -> Tensor:
        """The reverse of :meth:`front`."""
        return states if self.index is None else _take(states, self.index.argsort(-1), axis)

    def map_back(self, weights: Tensor, is_step: bool) -> Tensor:
        """A map (B, H, Q, K) with its keys and, but for a step, its queries where they stood."""
        weights = self.back(weights, 3)
        return weights if is_step else self.back(weights, 2)

    def effective_back(self, found: EffectiveMap, is_step: bool) -> EffectiveMap:
        """The same for a map that may bring its own way to mix values."""
        weights, mix = self.map_back(found.weights, is_step), found.mix
        if mix is None or self.index is None:
            return replace(found, weights=weights)
        if is_step:
            return EffectiveMap(weights, lambda given: mix(self.front(given, 3)))
        return EffectiveMap(weights, lambda given: self.back(mix(self.front(self.front(given, 3), 2)), 1))


def _take(states: Tensor, index: Tensor, axis: int) -> Tensor:
    shape = [1] * states.ndim
    shape[0], shape[axis] = index.shape
    return states.take_along_dim(index.view(shape), axis)


def _layout(query: Tensor, key: Tensor, tokens: Tensor | None) -> Layout:
    batch, queries, keys = len(query), query.shape[2], key.shape[2]
    if tokens is None:
        lengths = torch.full((batch,), keys, device=query.device)
        return Layout(lengths, torch.arange(keys - queries, keys, device=query.device).expand(batch, -1))
    if queries == keys:
        return Layout(tokens.sum(-1), torch.arange(keys, device=query.device).expand(batch, -1))
    return Layout(tokens.sum(-1), (tokens.long().cumsum(-1) - 1)[:, -queries:].clamp(min=0))


def _takes_map(function: AttentionFunction) -> bool:
    """Whether the function can be handed weights, which a fused one cannot."""
    return "effective" in inspect.signature(function).parameters
