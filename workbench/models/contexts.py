"""Masks in the form that the chosen attention function wants, with the position bias in them; and caches."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import Cache
from transformers.masking_utils import (
    ALL_MASK_ATTENTION_FUNCTIONS,
    create_bidirectional_mask,
    find_packed_sequence_indices,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from workbench.models.configuration import TransformerConfig
from workbench.models.stack import LayerStack
from workbench.nn import AttentionContext, AttentionFunction, KeyValueStore, PositionEncoding, eager_attention
from workbench.nn.masks import add_bias, mask_rule, same_document

__all__ = ["SourceCache", "new_cache", "self_contexts", "source_context"]


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
        # Without a mask, nothing could carry the bias, and only the fused kernel knows what is causal.
        may_skip = bias is None and config.attention.softcap is None
        blocked = (
            mask[kind]
            if isinstance(mask, dict)
            else _mask(stack, hidden, mask, cache, given_positions, layer, may_skip=may_skip)
        )
        store = cast(KeyValueStore | None, cache)  # self-attention never asks what is stored
        contexts[kind] = AttentionContext(add_bias(blocked, bias), function, encoding, angles, store)
    return contexts


def _mask(
    stack: LayerStack,
    hidden: Tensor,
    mask: Tensor | None,
    cache: Cache | None,
    positions: Tensor | None,
    layer: int,
    *,
    may_skip: bool,
) -> Any:
    """The rule of ``layer`` in the form that the attention function wants; ``None`` where it needs no mask.

    ``mask`` (B, K) hides padding; one of four axes is taken as it is.
    """
    config = stack.config
    form = ALL_MASK_ATTENTION_FUNCTIONS.get(config._attn_implementation)
    if mask is not None and len(mask.shape) == 4:
        return mask
    if form is None:
        return None
    is_causal = stack.is_causal and getattr(config, "is_causal", True)
    window = config.sliding_window if stack.kinds[layer] == "sliding_attention" else None
    rule, documents = mask_rule(is_causal=is_causal, window=window), None
    if is_causal and positions is not None and mask is None and cache is None:
        documents = find_packed_sequence_indices(positions.expand(len(hidden), -1))
    if documents is not None:
        rule = same_document(rule, documents)
    new, (seen, keys, first_key) = hidden.shape[1], _places(hidden, cache, layer)
    is_compiled_step = getattr(cache, "is_compileable", False) and new == 1
    return form(
        batch_size=len(hidden),
        q_length=new,
        kv_length=keys if cache is not None or mask is None else mask.shape[-1],
        q_offset=seen,
        kv_offset=first_key,
        mask_function=rule,
        attention_mask=None if mask is None else mask.to(hidden.device, torch.bool),
        local_size=window,
        allow_is_causal_skip=is_causal and may_skip and documents is None and not is_compiled_step,
        allow_is_bidirectional_skip=not is_causal,
        dtype=hidden.dtype,
        config=config,
        device=hidden.device,
    )


def _places(hidden: Tensor, cache: Cache | None, layer: int) -> tuple[Any, int, int]:
    """Tokens seen before, number of keys, and place of the first key."""
    new = hidden.shape[1]
    if cache is None:
        return 0, new, 0
    return cache.get_query_offset(layer), *cache.get_mask_sizes(new, layer)


def _bias(encoding: PositionEncoding, hidden: Tensor, cache: Cache | None, layer: int) -> Tensor | None:
    seen, keys, first_key = _places(hidden, cache, layer)
    query_positions = torch.arange(hidden.shape[1], device=hidden.device) + seen
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
