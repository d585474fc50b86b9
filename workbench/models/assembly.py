"""From a configuration to parts: the only place that turns names of variants into classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from workbench.models.configuration import TransformerConfig
from workbench.nn import (
    ACTIVATIONS,
    GATED_NAMES,
    NORMS,
    AlibiPositions,
    Attention,
    Block,
    Embeddings,
    Experts,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    PositionEncoding,
    PostNorm,
    PreNorm,
    RelativeBuckets,
    Residual,
    RotaryPositions,
    Router,
    SandwichNorm,
    SinusoidalPositions,
)
from workbench.nn.forms import FORMS

__all__ = ["Layer", "form_settings", "make_embeddings", "make_layer", "make_norm", "make_positions"]


class Layer(GradientCheckpointingLayer, Block):
    """A block whose activations can be recomputed in the backward pass instead of kept."""


def make_positions(config: TransformerConfig, *, two_sided: bool) -> PositionEncoding:
    """The position encoding of a stack; ``two_sided`` if keys after the query are seen."""
    chosen, width = config.positions, config.embeddings.size or config.hidden_size
    makers: dict[str, Callable[[], PositionEncoding]] = {
        "none": PositionEncoding,
        "learned": lambda: LearnedPositions(
            width=width,
            max_length=chosen.max_length,
            offset=chosen.offset,
            padding_id=config.pad_token_id if chosen.skip_padding else None,
        ),
        "sinusoidal": lambda: SinusoidalPositions(width=width, base=chosen.base),
        "relative": lambda: RelativeBuckets(
            heads=config.attention.heads,
            buckets=chosen.buckets,
            max_distance=chosen.max_distance,
            two_sided=two_sided,
        ),
        "alibi": lambda: AlibiPositions(heads=config.attention.heads),
        "rotary": lambda: RotaryPositions(
            head_size=config.head_dim,
            base=chosen.base,
            interleaved=chosen.interleaved,
            fraction=chosen.fraction,
        ),
    }
    return makers[chosen.kind]()


def make_norm(config: TransformerConfig, *, width: int | None = None, is_wanted: bool = True) -> nn.Module:
    """A norm over the width of the model or ``width``; the identity where none is wanted."""
    if not is_wanted:
        return nn.Identity()
    return NORMS[config.norm.kind](width or config.hidden_size, config.norm.epsilon)


def make_embeddings(config: TransformerConfig, positions: PositionEncoding) -> Embeddings:
    """Token, segment and position embeddings."""
    chosen = config.embeddings
    return Embeddings(
        vocabulary=config.vocab_size,
        width=config.hidden_size,
        positions=positions,
        norm=make_norm(config, width=chosen.size, is_wanted=config.norm.embeddings),
        size=chosen.size,
        segments=chosen.segments,
        scale=math.sqrt(config.hidden_size) if chosen.scaled else 1.0,
        dropout=chosen.dropout,
        padding_id=config.pad_token_id if chosen.frozen_padding else None,
    )


def make_layer(config: TransformerConfig, layer_idx: int, *, is_causal: bool, has_source: bool) -> Layer:
    """One layer; with cross-attention if it ``has_source``."""
    chosen, make = config.feed_forward, partial(_make_feed_forward, config)
    has_experts = chosen.experts is not None and (layer_idx + 1) % chosen.expert_every == 0
    return Layer(
        attention=_make_attention(config, layer_idx, is_causal=is_causal, is_cross_attention=False),
        attention_residual=_make_residual(config),
        cross_attention=(
            _make_attention(config, layer_idx, is_causal=False, is_cross_attention=True)
            if has_source
            else None
        ),
        cross_attention_residual=_make_residual(config) if has_source else None,
        router=_make_router(config) if has_experts else None,
        feed_forward=Experts(make, chosen.experts or 1) if has_experts else make(),
        feed_forward_residual=_make_residual(config),
    )


def _make_attention(
    config: TransformerConfig, layer_idx: int, *, is_causal: bool, is_cross_attention: bool
) -> Attention:
    chosen = config.attention
    make = Attention if is_cross_attention else _form_maker(config, is_causal=is_causal)
    return make(
        width=config.hidden_size,
        heads=chosen.heads,
        key_value_heads=chosen.key_value_heads,
        head_size=chosen.head_size,
        bias=chosen.bias,
        output_bias=chosen.output_bias,
        scaling=chosen.scaling,
        softcap=chosen.softcap,
        dropout=chosen.dropout,
        is_causal=is_causal,
        is_cross_attention=is_cross_attention,
        layer_idx=layer_idx,
    )


def _form_maker(config: TransformerConfig, *, is_causal: bool) -> Callable[..., Attention]:
    """The class of self-attention, with the settings of its form."""
    kind = config.form_kind(is_causal=is_causal)
    return partial(Attention if kind == "full" else FORMS[kind], **form_settings(config, kind))


def form_settings(config: TransformerConfig, kind: str) -> dict[str, Any]:
    """The settings that a form of self-attention takes, by the names of its constructor."""
    chosen = config.form
    places = {"max_length": config.positions.max_length}
    settings: dict[str, dict[str, Any]] = {
        "full": {},
        "linformer": {"rank": chosen.rank, **places},
        "nystromformer": {"landmarks": chosen.landmarks, "kernel": chosen.kernel},
        "performer": {"features": chosen.features, "seed": chosen.seed},
        "reformer": {
            "block": chosen.block,
            "rounds": chosen.rounds,
            "buckets": chosen.buckets,
            "across_buckets": chosen.across_buckets,
            "seed": chosen.seed,
        },
        "synthesizer_dense": places,
        "synthesizer_factorised": {"factor": chosen.factor, **places},
        "synthesizer_fixed": {"seed": chosen.seed, **places},
        "synthesizer_random": places,
        "dynamic_conv": {"kernel": chosen.kernel or 31},
        "lightweight_conv": {"kernel": chosen.kernel or 31},
        "bigbird": {"block": chosen.block, "random_blocks": chosen.random_blocks, "seed": chosen.seed},
        "longformer": {"window": chosen.window, "global_tokens": chosen.global_tokens},
    }
    return settings[kind]


def _make_residual(config: TransformerConfig) -> Residual:
    norm, scale = make_norm(config), config.norm.residual_scale
    if config.norm.placement == "sandwich":
        return SandwichNorm(norm=norm, outer_norm=make_norm(config), dropout=config.dropout, scale=scale)
    placement = PreNorm if config.norm.placement == "pre" else PostNorm
    return placement(norm=norm, dropout=config.dropout, scale=scale)


def _make_router(config: TransformerConfig) -> Router:
    chosen = config.feed_forward
    return Router(
        width=config.hidden_size,
        experts=chosen.experts or 1,
        chosen=chosen.experts_per_token,
        capacity_factor=chosen.capacity_factor,
        is_noisy=chosen.router_noise,
    )


def _make_feed_forward(config: TransformerConfig) -> FeedForward:
    chosen = config.feed_forward
    gated = GATED_NAMES.get(chosen.activation)
    return (GatedFeedForward if gated else FeedForward)(
        width=config.hidden_size,
        size=chosen.size,
        activation=ACTIVATIONS[gated or chosen.activation],
        bias=chosen.bias,
        dropout=chosen.dropout,
    )
