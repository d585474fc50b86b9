"""Masks in the form that the chosen attention function wants, with the position bias in them; and caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from workbench.nn import AttentionContext, AttentionFunction, PositionEncoding, eager_attention
from workbench.nn.masks import add_bias

__all__ = ["SourceCache", "causal_contexts", "new_cache", "source_context", "two_sided_contexts"]

Contexts = dict[str, AttentionContext]  # type of layer -> what its attention needs

_CAUSAL: dict[str, Callable[..., Any]] = {
    "full_attention": create_causal_mask,
    "sliding_attention": create_sliding_window_causal_mask,
}
_TWO_SIDED: dict[str, Callable[..., Any]] = {
    "full_attention": create_bidirectional_mask,
    "sliding_attention": create_bidirectional_sliding_window_mask,
}


def _attention_function(config: TransformerConfig) -> AttentionFunction:
    """From transformers' registry, so that an observer registered there sees these models too.

    PyTorch's fused kernel cannot cap scores, so capped ones are computed step by step.
    """
    if config.attention.softcap is not None and config._attn_implementation == "sdpa":
        return eager_attention
    return ALL_ATTENTION_FUNCTIONS.get_interface(config._attn_implementation, eager_attention)


def two_sided_contexts(
    config: TransformerConfig,
    encoding: PositionEncoding,
    hidden: Tensor,
    mask: Tensor | None,
    positions: Tensor,
) -> Contexts:
    """For an encoder: hidden states (B, T, D), padding ``mask`` (B, T), ``positions`` (1 or B, T)."""
    places = torch.arange(hidden.shape[1], device=hidden.device)
    bias, angles = encoding.bias_scores(places, places), encoding.angles(positions, hidden)
    contexts = {}
    for kind in dict.fromkeys(config.encoder_layer_types):
        blocked = _TWO_SIDED[kind](config=config, inputs_embeds=hidden, attention_mask=mask)
        contexts[kind] = AttentionContext(
            add_bias(blocked, bias), _attention_function(config), encoding, angles
        )
    return contexts


def causal_contexts(
    config: TransformerConfig,
    encoding: PositionEncoding,
    hidden: Tensor,
    mask: Tensor | dict[str, Tensor] | None,
    positions: Tensor,
    cache: Cache | None,
    given_positions: Tensor | None,
) -> Contexts:
    """For a decoder: new hidden states (B, T, D), their ``positions`` (1 or B, T), ``mask`` (B, old and new).

    ``given_positions`` are those that the caller chose: restarts in them separate packed texts.
    """
    angles = encoding.angles(positions, hidden)
    contexts = {}
    for kind in dict.fromkeys(config.layer_types):
        layer = config.layer_types.index(kind)
        bias = _causal_bias(encoding, hidden, cache, layer)
        blocked = (
            mask[kind]
            if isinstance(mask, dict)
            else _CAUSAL[kind](
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
        contexts[kind] = AttentionContext(
            add_bias(blocked, bias), _attention_function(config), encoding, angles
        )
    return contexts


def _causal_bias(
    encoding: PositionEncoding, hidden: Tensor, cache: Cache | None, layer: int
) -> Tensor | None:
    new = hidden.shape[1]
    seen: int | Tensor = 0
    keys, first_key = new, 0
    if cache is not None:
        seen = cache.get_query_offset(layer)
        keys, first_key = cache.get_mask_sizes(new, layer)
    query_positions = torch.arange(new, device=hidden.device) + seen
    key_positions = torch.arange(keys, device=hidden.device) + first_key
    return encoding.bias_scores(query_positions, key_positions)


def source_context(
    config: TransformerConfig, hidden: Tensor, source: Tensor, source_mask: Tensor | None
) -> AttentionContext:
    """For cross-attention from ``hidden`` (B, T, D) to ``source`` (B, S, D) with padding mask (B, S)."""
    blocked = create_bidirectional_mask(
        config=config, inputs_embeds=hidden, attention_mask=source_mask, encoder_hidden_states=source
    )
    return AttentionContext(blocked, _attention_function(config))


def new_cache(config: TransformerConfig, *, has_source: bool) -> Cache:
    """An empty cache; one for self- and one for cross-attention if there is a source."""
    if has_source:
        return EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
    return DynamicCache(config=config)


class SelfCache:
    """transformers' cache as :class:`~workbench.nn.KeyValueStore`."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Append to a layer and return all that it holds."""
        return self._cache.update(key_states, value_states, layer_idx)

    def stored(self, layer_idx: int) -> tuple[Tensor, Tensor] | None:
        """Never asked of self-attention."""
        return None


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
