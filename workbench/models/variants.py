"""Small configurations in which one thing is changed that a paper proposed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workbench.models.configuration import TransformerConfig
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    FeedForwardConfig,
    FormConfig,
    NormConfig,
)
from workbench.models.published import bert, gpt, transformer

__all__ = ["funnel", "mixture", "universal", "with_form", "without_norms"]


def with_form(kind: str, *, is_causal: bool = False, length: int = 1024, **sizes: Any) -> TransformerConfig:
    """A small encoder as in BERT, or decoder as in GPT-2, with another form of self-attention."""
    config = gpt(4, 256, 4) if is_causal else bert(4, 256, 4)
    config.form = FormConfig(kind=kind, **sizes)
    config.positions = replace(config.positions, max_length=length)
    return config


def mixture(**settings: Any) -> TransformerConfig:
    """A small decoder as in GPT-2 whose feed-forward parts are mixtures of experts."""
    config = gpt(4, 128, 4)
    config.feed_forward = replace(config.feed_forward, size=256, **settings)
    return config


def universal() -> TransformerConfig:
    """A small encoder-decoder as in Vaswani et al. 2017 whose layers are steps of one, and halt."""
    config = transformer()
    config.hidden_size, config.attention = 128, AttentionConfig(heads=4)
    config.feed_forward = FeedForwardConfig(activation="relu", size=256)
    config.depth = DepthConfig(layers=6, groups=1, step_encoding=True, halting=0.99)
    return config


def funnel() -> TransformerConfig:
    """A small encoder as in BERT, three groups of two layers, and two for tokens."""
    config = bert(8, 128, 2)
    config.depth = DepthConfig(layers=8, pool_every=2, upsampled_layers=2)
    return config


def without_norms(scale: str) -> TransformerConfig:
    """A small decoder as in GPT-2 without norms, which a learned number in each branch makes trainable."""
    config = gpt(4, 128, 4)
    config.norm = NormConfig(kind="none", residual_scale=scale, final=False)
    return config
