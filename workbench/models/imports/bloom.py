"""BLOOM: a decoder with ALiBi; BigScience 2022, Press et al. 2022."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from workbench.models.configuration import DecoderConfig, TransformerConfig
from workbench.models.decoder import TransformerDecoder
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.sequence_classification import TransformerDecoderForSequenceClassification
from workbench.models.heads.token_classification import TransformerDecoderForTokenClassification
from workbench.models.imports.mapping import ModelFamily, Weights, refuse, special_ids
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionConfig,
)

__all__ = ["FAMILY"]


def _config(hf: Any, class_name: str) -> TransformerConfig:
    refuse(hf, apply_residual_connection_post_layernorm=False, slow_but_exact=False)
    return DecoderConfig(
        vocab_size=hf.vocab_size,
        hidden_size=hf.hidden_size,
        attention=AttentionConfig(heads=hf.n_head, dropout=hf.attention_dropout),
        positions=PositionConfig(kind="alibi", max_length=2048),
        norm=NormConfig(placement="pre", epsilon=hf.layer_norm_epsilon, embeddings=True),
        feed_forward=FeedForwardConfig(activation="gelu_tanh", size=4 * hf.hidden_size),
        embeddings=EmbeddingConfig(),
        depth=DepthConfig(layers=hf.n_layer),
        dropout=hf.hidden_dropout,
        initializer_range=hf.initializer_range,
        **special_ids(hf),
    )


def _split(name: str, weight: Tensor, hf: Any) -> Weights:
    """Query, key and value of a head lie together: (H, 3, d, …) to three of (H d, …)."""
    by_head = weight.unflatten(0, (hf.n_head, 3, -1))
    parts = ("query", "key", "value")
    return {
        name.replace("query_key_value", part): by_head[:, i].flatten(0, 1) for i, part in enumerate(parts)
    }


_OLD, _NEW = r"h\.(\d+)\.", r"stack.layers.\1."

FAMILY = ModelFamily(
    config=_config,
    classes={
        "BloomModel": TransformerDecoder,
        "BloomForCausalLM": TransformerDecoderForCausalLM,
        "BloomForSequenceClassification": TransformerDecoderForSequenceClassification,
        "BloomForTokenClassification": TransformerDecoderForTokenClassification,
    },
    prefix="transformer",
    body=(
        (r"word_embeddings\.weight", r"stack.embeddings.tokens.weight"),
        (r"word_embeddings_layernorm\.(\w+)", r"stack.embeddings.norm.\1"),
        (_OLD + r"input_layernorm\.(\w+)", _NEW + r"attention_residual.norm.\2"),
        (_OLD + r"self_attention\.(query|key|value)\.(\w+)", _NEW + r"attention.\2.\3"),
        (_OLD + r"self_attention\.dense\.(\w+)", _NEW + r"attention.output.\2"),
        (_OLD + r"post_attention_layernorm\.(\w+)", _NEW + r"feed_forward_residual.norm.\2"),
        (_OLD + r"mlp\.dense_h_to_4h\.(\w+)", _NEW + r"feed_forward.up.\2"),
        (_OLD + r"mlp\.dense_4h_to_h\.(\w+)", _NEW + r"feed_forward.down.\2"),
        (r"ln_f\.(\w+)", r"stack.final_norm.\1"),
    ),
    head=(
        (r"lm_head\.weight", r"head.output.weight"),
        (r"(?:score|classifier)\.(\w+)", r"classifier.\1"),
    ),
    splits={r".*query_key_value\.\w+": _split},
)
