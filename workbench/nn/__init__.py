"""Parts of transformers in plain PyTorch; :mod:`workbench.models` assembles them."""

from __future__ import annotations

from workbench.nn.attention import Attention, AttentionContext, KeyValueStore
from workbench.nn.attention_functions import AttentionFunction, EffectiveMap, eager_attention, sdpa_attention
from workbench.nn.block import Block
from workbench.nn.embeddings import Embeddings
from workbench.nn.experts import Experts, Router, Routing, balance_loss
from workbench.nn.feed_forward import ACTIVATIONS, GATED_NAMES, FeedForward, GatedFeedForward
from workbench.nn.norms import NORMS, LayerNorm, NoNorm, RMSNorm
from workbench.nn.pooling import (
    AttentionPooling,
    LabelwiseLinear,
    first_token,
    last_token,
    mean_of_tokens,
)
from workbench.nn.positions import (
    AlibiPositions,
    LearnedPositions,
    PositionEncoding,
    RelativeBuckets,
    RotaryPositions,
    SinusoidalPositions,
)
from workbench.nn.residual import PostNorm, PreNorm, Residual, SandwichNorm

__all__ = [
    "ACTIVATIONS",
    "GATED_NAMES",
    "NORMS",
    "AlibiPositions",
    "Attention",
    "AttentionContext",
    "AttentionFunction",
    "AttentionPooling",
    "Block",
    "EffectiveMap",
    "Embeddings",
    "Experts",
    "FeedForward",
    "GatedFeedForward",
    "KeyValueStore",
    "LabelwiseLinear",
    "LayerNorm",
    "LearnedPositions",
    "NoNorm",
    "PositionEncoding",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "RelativeBuckets",
    "Residual",
    "RotaryPositions",
    "Router",
    "Routing",
    "SandwichNorm",
    "SinusoidalPositions",
    "balance_loss",
    "eager_attention",
    "first_token",
    "last_token",
    "mean_of_tokens",
    "sdpa_attention",
]
