"""DistilBERT: BERT without segments and pooler; Sanh et al. 2019."""

from __future__ import annotations

from typing import Any

from workbench.models.configuration import EncoderConfig, TransformerConfig
from workbench.models.imports.mapping import ModelFamily, activation, encoder_classes, special_ids
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
    is_classifier = class_name == "DistilBertForSequenceClassification"
    return EncoderConfig(
        vocab_size=hf.vocab_size,
        hidden_size=hf.dim,
        attention=AttentionConfig(heads=hf.n_heads, dropout=hf.attention_dropout),
        positions=PositionConfig(kind="learned", max_length=hf.max_position_embeddings),
        norm=NormConfig(placement="post", epsilon=1e-12, embeddings=True, final=False),
        feed_forward=FeedForwardConfig(activation=activation(hf.activation), size=hf.hidden_dim),
        embeddings=EmbeddingConfig(dropout=hf.dropout, frozen_padding=hf.pad_token_id is not None),
        depth=DepthConfig(layers=hf.n_layers),
        head=HeadConfig(
            transform=activation(hf.activation), bias=True, pooler="relu" if is_classifier else None
        ),
        dropout=hf.dropout,
        classifier_dropout=hf.seq_classif_dropout if is_classifier else hf.dropout,
        initializer_range=hf.initializer_range,
        **special_ids(hf),
    )


_OLD, _NEW = r"transformer\.layer\.(\d+)\.", r"stack.layers.\1."

FAMILY = ModelFamily(
    config=_config,
    classes=encoder_classes("DistilBert"),
    prefix="distilbert",
    body=(
        (r"embeddings\.word_embeddings\.weight", r"stack.embeddings.tokens.weight"),
        (r"embeddings\.position_embeddings\.weight", r"stack.embeddings.positions.table.weight"),
        (r"embeddings\.LayerNorm\.(\w+)", r"stack.embeddings.norm.\1"),
        (_OLD + r"attention\.q_lin\.(\w+)", _NEW + r"attention.query.\2"),
        (_OLD + r"attention\.k_lin\.(\w+)", _NEW + r"attention.key.\2"),
        (_OLD + r"attention\.v_lin\.(\w+)", _NEW + r"attention.value.\2"),
        (_OLD + r"attention\.out_lin\.(\w+)", _NEW + r"attention.output.\2"),
        (_OLD + r"sa_layer_norm\.(\w+)", _NEW + r"attention_residual.norm.\2"),
        (_OLD + r"ffn\.lin1\.(\w+)", _NEW + r"feed_forward.up.\2"),
        (_OLD + r"ffn\.lin2\.(\w+)", _NEW + r"feed_forward.down.\2"),
        (_OLD + r"output_layer_norm\.(\w+)", _NEW + r"feed_forward_residual.norm.\2"),
    ),
    head=(
        (r"vocab_transform\.(\w+)", r"head.transform.dense.\1"),
        (r"vocab_layer_norm\.(\w+)", r"head.transform.norm.\1"),
        (r"vocab_projector\.(\w+)", r"head.output.\1"),
        (r"pre_classifier\.(\w+)", r"model.pooler.dense.\1"),
        (r"(?:classifier|qa_outputs)\.(\w+)", r"classifier.\1"),
    ),
)
