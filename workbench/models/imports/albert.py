"""ALBERT: a factorised token table and layers shared across depth; Lan et al. 2020."""

from __future__ import annotations

from typing import Any

from workbench.models.configuration import EncoderConfig, TransformerConfig
from workbench.models.heads.masked import TransformerEncoderForPreTraining
from workbench.models.imports.mapping import ModelFamily, activation, encoder_classes, refuse, special_ids
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
)

__all__ = ["FAMILY"]


def _config(hf: Any, class_name: str) -> TransformerConfig:
    refuse(hf, inner_group_num=1)
    return EncoderConfig(
        vocab_size=hf.vocab_size,
        hidden_size=hf.hidden_size,
        attention=AttentionConfig(heads=hf.num_attention_heads, dropout=hf.attention_probs_dropout_prob),
        positions=PositionConfig(kind="learned", max_length=hf.max_position_embeddings),
        norm=NormConfig(placement="post", epsilon=hf.layer_norm_eps, embeddings=True, final=False),
        feed_forward=FeedForwardConfig(activation=activation(hf.hidden_act), size=hf.intermediate_size),
        embeddings=EmbeddingConfig(
            size=hf.embedding_size,
            segments=hf.type_vocab_size,
            dropout=hf.hidden_dropout_prob,
            frozen_padding=hf.pad_token_id is not None,
        ),
        depth=DepthConfig(layers=hf.num_hidden_layers, groups=hf.num_hidden_groups),
        head=HeadConfig(transform=activation(hf.hidden_act), bias=True, pooler="tanh"),
        dropout=hf.hidden_dropout_prob,
        classifier_dropout=hf.classifier_dropout_prob,
        initializer_range=hf.initializer_range,
        **special_ids(hf),
    )


_OLD, _NEW = r"encoder\.albert_layer_groups\.(\d+)\.albert_layers\.0\.", r"stack.layers.\1."

FAMILY = ModelFamily(
    config=_config,
    classes=encoder_classes("Albert", PreTraining=TransformerEncoderForPreTraining),
    prefix="albert",
    body=(
        (r"embeddings\.word_embeddings\.weight", r"stack.embeddings.tokens.weight"),
        (r"embeddings\.position_embeddings\.weight", r"stack.embeddings.positions.table.weight"),
        (r"embeddings\.token_type_embeddings\.weight", r"stack.embeddings.segments.weight"),
        (r"embeddings\.LayerNorm\.(\w+)", r"stack.embeddings.norm.\1"),
        (r"encoder\.embedding_hidden_mapping_in\.(\w+)", r"stack.embeddings.project.\1"),
        (_OLD + r"attention\.(query|key|value)\.(\w+)", _NEW + r"attention.\2.\3"),
        (_OLD + r"attention\.dense\.(\w+)", _NEW + r"attention.output.\2"),
        (_OLD + r"attention\.LayerNorm\.(\w+)", _NEW + r"attention_residual.norm.\2"),
        (_OLD + r"ffn\.(\w+)", _NEW + r"feed_forward.up.\2"),
        (_OLD + r"ffn_output\.(\w+)", _NEW + r"feed_forward.down.\2"),
        (_OLD + r"full_layer_layer_norm\.(\w+)", _NEW + r"feed_forward_residual.norm.\2"),
        (r"pooler\.(\w+)", r"pooler.dense.\1"),
    ),
    head=(
        (r"predictions\.dense\.(\w+)", r"head.transform.dense.\1"),
        (r"predictions\.LayerNorm\.(\w+)", r"head.transform.norm.\1"),
        (r"predictions\.decoder\.(\w+)", r"head.output.\1"),
        (r"predictions\.bias", r"head.output.bias"),
        (r"sop_classifier\.classifier\.(\w+)", r"relationship.\1"),
        (r"(?:classifier|qa_outputs)\.(\w+)", r"classifier.\1"),
    ),
)
