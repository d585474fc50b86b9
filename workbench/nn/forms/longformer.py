"""Longformer: a window around each token, and a few global tokens that see and are seen by all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from workbench.nn.attention import AttentionContext
from workbench.nn.attention_functions import EffectiveMap
from workbench.nn.forms.base import EfficientAttention, Layout
from workbench.nn.forms.blocks import ABSENT, attend_to_blocks, attend_to_rows, listed_once, masked_softmax

__all__ = ["LongformerAttention"]


class LongformerAttention(EfficientAttention):
    """Beltagy et al. 2020, "Longformer: The Long-Document Transformer", section 3.1.

    ``window`` keys to either side; causal: the token itself and the ``window - 1`` before it. The first
    ``global_tokens`` tokens of a text attend with projections of their own (``query_global``, …) to all tokens, and all
    tokens attend to them. Texts are padded inside to a multiple of the window.
    """

    can_be_causal: ClassVar[bool] = True

    def __init__(self, *, window: int, global_tokens: int, **attention: Any) -> None:
        super().__init__(**attention)
        self.window = window
        self.global_tokens = global_tokens
        if global_tokens:
            for name in ("query", "key", "value"):
                plain = getattr(self, name)
                wide = nn.Linear(plain.in_features, plain.out_features, bias=plain.bias is not None)
                setattr(self, f"{name}_global", wide)

    def project(self, hidden: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor, Tensor]:
        """Plain projections with the global ones behind them, (B, H, T, 2 d): a cache keeps both."""
        plain = super().project(hidden, context)
        if not self.global_tokens:
            return plain
        wide = [self._split(getattr(self, f"{name}_global")(hidden)) for name in ("query", "key", "value")]
        if context.positions is not None:
            wide[:2] = context.positions.rotate_query_key(wide[0], wide[1], context.angles)
        query, key, value = (torch.cat(pair, -1) for pair in zip(plain, wide, strict=True))
        return query, key, value

    def allowed(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the key at a place is in the window of the query at a place, or global."""
        near = (query - key).abs() <= self.window - self.is_causal
        found = near | (key < self.global_tokens)
        return found & (key <= query) if self.is_causal else found

    def mean_keys(self, length: int) -> float:
        """The window, whole, and the global tokens twice: as keys and, over all tokens, as queries."""
        seen = self.window if self.is_causal else 2 * self.window + 1
        return float(min(seen + 2 * self.global_tokens, length))

    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """Blocks as wide as the window meet their neighbours and the blocks of the global tokens."""
        length, size, dropout = query.shape[2], self.head_size, self.dropout if self.training else 0.0
        lengths = layout.lengths.view(-1, 1, 1, 1, 1)
        heads = attend_to_blocks(
            query[..., :size],
            key[..., :size],
            value[..., :size],
            self._blocks(-(-length // self.window), query.device),
            lambda queries, keys: self.allowed(queries, keys) & (keys < lengths),
            block=self.window,
            scaling=self.scaling,
            dropout=dropout,
        )
        count = min(self.global_tokens, length)
        if count:
            first = replace(layout, places=layout.places[:, :count])
            visible = first.visible(length, is_causal=self.is_causal)
            wide = (query[:, :, :count, size:], key[..., size:], value[..., size:])
            rows = attend_to_rows(*wide, visible, scaling=self.scaling, dropout=dropout)
            heads = torch.cat((rows, heads[:, :, count:]), 2)
        return heads.transpose(1, 2)

    def _blocks(self, count: int, device: torch.device) -> Tensor:
        """Neighbours and global blocks of each block: (1, 1, N, L)."""
        here = torch.arange(count, device=device)[:, None]
        after = 0 if self.is_causal else 1
        near = here + torch.arange(-1, after + 1, device=device)
        near = near.masked_fill((near < 0) | (near >= count), ABSENT)
        needed = min(-(-self.global_tokens // self.window), count)
        wide = torch.arange(needed, device=device).expand(count, -1)
        return listed_once(torch.cat((near, wide), -1))[None, None]

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """Local rows over plain keys, global rows over global ones; global rows mix the global values."""
        size, places = self.head_size, layout.places[:, None, :, None]  # (B, 1, Q, 1)
        visible = layout.visible(key.shape[2], is_causal=self.is_causal)
        local = visible & self.allowed(places, torch.arange(key.shape[2], device=key.device))
        weights = self._weights(query[..., :size], key[..., :size], local)
        if not self.global_tokens:
            return EffectiveMap(weights), local
        is_global, wide_value = places < self.global_tokens, value[..., size:]
        wide = self._weights(query[..., size:], key[..., size:], visible)
        plain_value = value[..., :size]

        def mix(given: Tensor) -> Tensor:
            return torch.where(is_global, given @ wide_value, given @ plain_value).transpose(1, 2)

        return EffectiveMap(torch.where(is_global, wide, weights), mix), torch.where(
            is_global, visible, local
        )

    def _weights(self, query: Tensor, key: Tensor, allowed: Tensor) -> Tensor:
        return masked_softmax(query @ key.transpose(-1, -2) * self.scaling, allowed)
