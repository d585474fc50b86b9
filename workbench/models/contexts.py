"""Masks in the form that the chosen attention function wants, with the position bias in them; and caches."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

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

from workbench.errors import ConfigError
from workbench.models.configuration import TransformerConfig
from workbench.models.stack import LayerStack
from workbench.nn import AttentionContext, AttentionFunction, KeyValueStore, PositionEncoding, eager_attention
from workbench.nn.forms import FORMS
from workbench.nn.masks import AttentionRule, add_bias

__all__ = ["SourceCache", "new_cache", "one_cache", "self_contexts", "source_context"]


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
    config, encoding, documents = stack.config, stack.embeddings.positions, None
    function, angles = _attention_function(config), encoding.angles(positions, hidden)
    store = cast(KeyValueStore | None, cache)  # self-attention never asks what is stored
    if config.form_kind(is_causal=stack.is_causal) != "full":
        tokens = _tokens(config, hidden, mask, cache)
        return dict.fromkeys(
            stack.kinds, AttentionContext(None, function, encoding, angles, store, tokens=tokens)
        )
    if stack.is_causal and given_positions is not None and mask is None and cache is None:
        documents = find_packed_sequence_indices(given_positions.expand(len(hidden), -1))
    contexts, is_token = {}, None
    if isinstance(mask, Tensor) and mask.ndim == 2:
        is_token = mask.to(hidden.device, torch.bool)
    for kind in dict.fromkeys(stack.kinds):
        window = config.sliding_window if kind == "sliding_attention" else None
        rule = AttentionRule(is_causal=stack.is_causal, window=window, documents=documents)
        places = _places(hidden, cache, stack.kinds.index(kind))
        bias = _bias(encoding, hidden, places)
        blocked = mask[kind] if isinstance(mask, dict) else _mask(stack, hidden, mask, rule, places, bias)
        contexts[kind] = AttentionContext(
            add_bias(blocked, bias), function, encoding, angles, store, tokens=is_token
        )
    return contexts


def _tokens(
    config: TransformerConfig, hidden: Tensor, mask: Tensor | dict[str, Tensor] | None, cache: Cache | None
) -> Tensor | None:
    """Tokens among the keys (B, K), for the forms of attention that make their own pattern; ``None``: all."""
    kind = config.form.kind
    if cache is not None and not FORMS[kind].can_cache:
        raise ConfigError(f"{kind} attention cannot go on from a cache; pass use_cache=False and no cache")
    if mask is None:
        return None
    if isinstance(mask, dict) or mask.ndim != 2:
        raise ConfigError(
            f"{kind} attention makes its own pattern and takes no mask of queries and keys; allowed: attention_mask "
            "of shape (batch, tokens)"
        )
    return mask.to(hidden.device, torch.bool)


def _mask(
    stack: LayerStack,
    hidden: Tensor,
    mask: Tensor | None,
    rule: AttentionRule,
    places: _Places,
    bias: Tensor | None,
) -> Any:
    """``rule`` and padding, zero in ``mask`` (B, K), in the form that the attention function wants, or ``None``.

    A mask of four axes is used as it is. Only the fused kernel knows by itself what is causal, and only if there
    is no bias, which a mask has to carry, and a plain rule.
    """
    form = ALL_MASK_ATTENTION_FUNCTIONS.get(stack.config._attn_implementation)
    if mask is not None and len(mask.shape) == 4:
        return mask
    if form is None:
        return None
    is_bare = bias is None and stack.config.attention.softcap is None and rule.documents is None
    return form(
        batch_size=len(hidden),
        q_length=hidden.shape[1],
        kv_length=places.keys if mask is None or places.in_cache else mask.shape[-1],
        q_offset=places.seen,
        kv_offset=places.first_key,
        mask_function=rule,
        attention_mask=None if mask is None else mask.to(hidden.device, torch.bool),
        local_size=rule.window,
        allow_is_causal_skip=stack.is_causal and is_bare and not places.is_compiled_step,
        allow_is_bidirectional_skip=not stack.is_causal,
        dtype=hidden.dtype,
        config=stack.config,
        device=hidden.device,
    )


class _Places(NamedTuple):
    """Tokens before the new ones, number of keys, and place of the first; whether a cache holds earlier ones."""

    seen: Any
    keys: int
    first_key: int
    in_cache: bool = False
    is_compiled_step: bool = False


def _places(hidden: Tensor, cache: Cache | None, layer: int) -> _Places:
    new = hidden.shape[1]
    if cache is None:
        return _Places(0, new, 0)
    is_compiled_step = new == 1 and bool(getattr(cache, "is_compileable", False))
    return _Places(cache.get_query_offset(layer), *cache.get_mask_sizes(new, layer), True, is_compiled_step)


def _bias(encoding: PositionEncoding, hidden: Tensor, places: _Places) -> Tensor | None:
    query_positions = torch.arange(hidden.shape[1], device=hidden.device) + places.seen
    key_positions = torch.arange(places.keys, device=hidden.device) + places.first_key
    return encoding.bias_scores(query_positions, key_positions)


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


def one_cache(cache: Cache | None, past_key_values: Cache | None) -> Cache | None:
    """The cache that was given, by either name; :class:`~workbench.errors.ConfigError` if by both."""
    if cache is not None and past_key_values is not None:
        raise ConfigError("cache and past_key_values are two names of one argument; allowed: one of them")
    return past_key_values if cache is None else cache


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
