"""Tiny built-in configurations for tests."""

from __future__ import annotations

from typing import Any

from workbench.models.configuration import (
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    TransformerConfig,
)
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    FeedForwardConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
)


def settings(**changes: Any) -> dict[str, Any]:
    """Width 16, two layers, four heads; ``changes`` replace whole parts."""
    return {
        "vocab_size": 40,
        "hidden_size": 16,
        "attention": AttentionConfig(heads=4),
        "positions": PositionConfig(kind="learned", max_length=12),
        "norm": NormConfig(placement="pre"),
        "feed_forward": FeedForwardConfig(size=24),
        "depth": DepthConfig(layers=2),
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        **changes,
    }


def decoder(**changes: Any) -> DecoderConfig:
    return DecoderConfig(**settings(**changes))


def encoder(**changes: Any) -> EncoderConfig:
    return EncoderConfig(**settings(head=HeadConfig(transform="gelu", bias=True), **changes))


def encoder_decoder(**changes: Any) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(**settings(depth=DepthConfig(layers=2, decoder_layers=3), **changes))


VARIANTS: dict[str, TransformerConfig] = {
    "learned": decoder(),
    "none": decoder(positions=PositionConfig(kind="none")),
    "sinusoidal": decoder(positions=PositionConfig(kind="sinusoidal")),
    "rotary interleaved": decoder(positions=PositionConfig(kind="rotary", interleaved=True, fraction=0.5)),
    "relative": decoder(positions=PositionConfig(kind="relative")),
    "alibi, window": decoder(
        positions=PositionConfig(kind="alibi"), attention=AttentionConfig(heads=4, window=3)
    ),
    "local and global": decoder(
        positions=PositionConfig(kind="rotary"), attention=AttentionConfig(heads=4, window=3, global_every=2)
    ),
    "sandwich, rezero": decoder(norm=NormConfig(placement="sandwich", residual_scale="rezero")),
    "post, no norm, fixup": decoder(norm=NormConfig(kind="none", placement="post", residual_scale="fixup")),
    "swiglu, multi-query": decoder(
        feed_forward=FeedForwardConfig(activation="swiglu", size=24),
        attention=AttentionConfig(heads=4, key_value_heads=1, head_size=6),
    ),
    "soft cap": decoder(attention=AttentionConfig(heads=4, softcap=5.0)),
    "shared layers": decoder(depth=DepthConfig(layers=4, groups=2)),
    "switch": decoder(feed_forward=FeedForwardConfig(size=24, experts=4, capacity_factor=1.25)),
    "mixture of experts": encoder_decoder(
        feed_forward=FeedForwardConfig(size=24, experts=4, experts_per_token=2, router_noise=True)
    ),
    "universal": decoder(
        depth=DepthConfig(layers=4, groups=1, step_encoding=True, halting=0.9),
        positions=PositionConfig(kind="sinusoidal"),
    ),
    "encoder": encoder(),
    "encoder, funnel": encoder(depth=DepthConfig(layers=5, pool_every=2, upsampled_layers=1)),
    "encoder, window": encoder(attention=AttentionConfig(heads=4, window=2)),
    "encoder, alibi": encoder(positions=PositionConfig(kind="alibi")),
    "encoder-decoder": encoder_decoder(),
    "encoder-decoder, rotary": encoder_decoder(positions=PositionConfig(kind="rotary")),
}


def fresh(name: str) -> TransformerConfig:
    """A configuration that a test may change."""
    config = VARIANTS[name]
    return type(config)(**{k: v for k, v in config.to_dict().items() if k != "model_type"})


__all__ = ["VARIANTS", "decoder", "encoder", "encoder_decoder", "fresh", "settings"]
