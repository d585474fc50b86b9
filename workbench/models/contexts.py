"""Masks in the form that the chosen attention function wants, with the position bias in them; and caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import Cache
from transformers.masking_utils import (
    create_bidirectional_mask,
    create_bidirectional_sliding_window_mask,
    create_causal_mask,
    create_sliding_window_causal_mask,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from workbench.models.configuration import TransformerConfig
from workbench.models.stack import LayerStack
from workbench.nn import AttentionContext, AttentionFunction, KeyValueStore, PositionEncoding, eager_attention
from workbench.nn.masks import add_bias

__all__ = ["SourceCache", "new_cache", "self_contexts", "source_context"]

# (is causal, kind of layer) -> what makes its mask
_MASKS: dict[tuple[bool, str], Callable[..., Any]] = {
    (True, "full_attention"): create_causal_mask,
    (True, "sliding_attention"): create_sliding_window_causal_mask,
    (False, "full_attention"): create_bidirectional_mask,
    (False, "sliding_attention"): create_bidirectional_sliding_window_mask,
}


def _attention_function(config: TransformerConfig) -> AttentionFunction:
    """From transformers' registry, so that an observer registered there sees these models too.

    PyTorch's fused kernel cannot cap scores, so capped ones are computed step by step.
    """
    if config.attention.softcap is not None and config._attn_implementation == "sdpa":
        return eager_attention
    return ALL_ATTENTION_FUNCTIONS.get_interface(config._attn_implementation, eager_attention)


def self_contexts(
    stack: LayerStack,
    hidden: Tensor,
    mask: Tensor | dict[str, Tensor] | None,
    positions: Tensor,
    cache: Cache | None = None,
    given_positions: Tensor | None = None,
) -> dict[str, AttentionContext]:
    """For self-attention, by kind of layer: hidden states (B, T, D) at ``positions`` (1 or B, T).

    ``mask`` (B, tokens in the cache and new ones) is nonzero at tokens. ``given_positions`` are those that the
    caller chose: restarts in them separate packed texts.
    """
    config, encoding = stack.config, stack.embeddings.positions
    function, angles = _attention_function(config), encoding.angles(positions, hidden)
    contexts = {}
    for kind in dict.fromkeys(stack.kinds):
        layer = stack.kinds.index(kind)
        bias = _bias(encoding, hidden, cache, layer)
        blocked = (
            mask[kind]
            if isinstance(mask, dict)
            else _MASKS[stack.is_causal, kind](
                config=config,
                inputs_embeds=hidden,
                attention_mask=mask,
                cache=cache,
                position_ids=given_positions,
                layer_idx=layer,
                # Without a mask, nothing could carry the bias, and only the fused kernel knows what is causal.
                allow_is_causal_skip=bias is None and config.attention.softcap is None,
            )
        )
        store = cast(KeyValueStore | None, cache)  # self-attention never asks what is stored
        contexts[kind] = AttentionContext(add_bias(blocked, bias), function, encoding, angles, store)
    return contexts


def _bias(encoding: PositionEncoding, hidden: Tensor, cache: Cache | None, layer: int) -> Tensor | None:
    new = hidden.shape[1]
    seen = cache.get_query_offset(layer) if cache is not None else 0
    keys, first_key = cache.get_mask_sizes(new, layer) if cache is not None else (new, 0)
    query_positions = torch.arange(new, device=hidden.device) + seen
    return encoding.bias_scores(query_positions, torch.arange(keys, device=hidden.device) + first_key)


def source_context(
    config: TransformerConfig,
    hidden: Tensor,
    source: Tensor | None,
    source_mask: Tensor | None,
    cache: Cache | None,
) -> AttentionContext | None:
    """For cross-attention from ``hidden`` (B, T, D) to ``source`` (B, S, D) with padding mask (B, S)."""
    if source is None:
        return None
    blocked = create_bidirectional_mask(
        config=config, inputs_embeds=hidden, attention_mask=source_mask, encoder_hidden_states=source
    )
    store = SourceCache(cache) if isinstance(cache, EncoderDecoderCache) else None
    return AttentionContext(blocked, _attention_function(config), cache=store, source=source)


def new_cache(config: TransformerConfig, *, has_source: bool) -> Cache:
    """An empty cache; one for self- and one for cross-attention if there is a source."""
    if has_source:
        return EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
    return DynamicCache(config=config)


class SourceCache:
    """The cross-attention half of transformers' encoder-decoder cache: filled once per source."""

    def __init__(self, cache: EncoderDecoderCache) -> None:
        self._cache = cache

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Keep the source's keys and values (B, KV, S, d) of a layer."""
        self._cache.is_updated[layer_idx] = True
        return self._cache.cross_attention_cache.update(key_states, value_states, layer_idx)

    def stored(self, layer_idx: int) -> tuple[Tensor, Tensor] | None:
        """What is kept, or ``None`` before the first pass."""
        if not self._cache.is_updated.get(layer_idx):
            return None
        layer: Any = self._cache.cross_attention_cache.layers[layer_idx]
        return layer.keys, layer.values
