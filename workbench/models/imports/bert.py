"""BERT and MiniLM; Devlin et al. 2019, Wang et al. 2020. RoBERTa and ELECTRA share its body."""

from __future__ import annotations

from typing import Any

from workbench.models.configuration import EncoderConfig, TransformerConfig
from workbench.models.heads.masked import TransformerEncoderForPreTraining
from workbench.models.heads.sequence_classification import TransformerEncoderForMultipleChoice
from workbench.models.imports.mapping import (
    ModelFamily,
    Renames,
    activation,
    encoder_classes,
    refuse,
    special_ids,
)
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
)

__all__ = ["BODY", "FAMILY", "bert_config"]


def bert_config(hf: Any, *, positions: PositionConfig, head: HeadConfig) -> TransformerConfig:
    """The configuration of a BERT-like encoder; raises ``ModelError`` if it is used as a decoder."""
    refuse(hf, is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
    return EncoderConfig(
        vocab_size=hf.vocab_size,
        hidden_size=hf.hidden_size,
        attention=AttentionConfig(heads=hf.num_attention_heads, dropout=hf.attention_probs_dropout_prob),
        positions=positions,
        norm=NormConfig(placement="post", epsilon=hf.layer_norm_eps, embeddings=True, final=False),
        feed_forward=FeedForwardConfig(activation=activation(hf.hidden_act), size=hf.intermediate_size),
        embeddings=EmbeddingConfig(
            size=getattr(hf, "embedding_size", None),
            segments=hf.type_vocab_size,
            dropout=hf.hidden_dropout_prob,
            frozen_padding=hf.pad_token_id is not None,
        ),
        depth=DepthConfig(layers=hf.num_hidden_layers),
        head=head,
        dropout=hf.hidden_dropout_prob,
        classifier_dropout=hf.classifier_dropout,
        initializer_range=hf.initializer_range,
        **special_ids(hf),
    )


def _config(hf: Any, class_name: str) -> TransformerConfig:
    return bert_config(
        hf,
        positions=PositionConfig(kind="learned", max_length=hf.max_position_embeddings),
        head=HeadConfig(transform=activation(hf.hidden_act), bias=True, pooler="tanh"),
    )


_OLD, _NEW = r"encoder\.layer\.(\d+)\.", r"stack.layers.\1."

BODY: Renames = (
    (r"embeddings\.word_embeddings\.weight", r"stack.embeddings.tokens.weight"),
    (r"embeddings\.position_embeddings\.weight", r"stack.embeddings.positions.table.weight"),
    (r"embeddings\.token_type_embeddings\.weight", r"stack.embeddings.segments.weight"),
    (r"embeddings\.LayerNorm\.(\w+)", r"stack.embeddings.norm.\1"),
    (_OLD + r"attention\.self\.(query|key|value)\.(\w+)", _NEW + r"attention.\2.\3"),
    (_OLD + r"attention\.output\.dense\.(\w+)", _NEW + r"attention.output.\2"),
    (_OLD + r"attention\.output\.LayerNorm\.(\w+)", _NEW + r"attention_residual.norm.\2"),
    (_OLD + r"intermediate\.dense\.(\w+)", _NEW + r"feed_forward.up.\2"),
    (_OLD + r"output\.dense\.(\w+)", _NEW + r"feed_forward.down.\2"),
    (_OLD + r"output\.LayerNorm\.(\w+)", _NEW + r"feed_forward_residual.norm.\2"),
    (r"pooler\.dense\.(\w+)", r"pooler.dense.\1"),
)

FAMILY = ModelFamily(
    config=_config,
    classes=encoder_classes(
        "Bert",
        PreTraining=TransformerEncoderForPreTraining,
        MultipleChoice=TransformerEncoderForMultipleChoice,
    ),
    prefix="bert",
    body=BODY,
    head=(
        (r"cls\.predictions\.transform\.dense\.(\w+)", r"head.transform.dense.\1"),
        (r"cls\.predictions\.transform\.LayerNorm\.(\w+)", r"head.transform.norm.\1"),
        (r"cls\.predictions\.decoder\.(\w+)", r"head.output.\1"),
        (r"cls\.predictions\.bias", r"head.output.bias"),
        (r"cls\.seq_relationship\.(\w+)", r"relationship.\1"),
        (r"(?:classifier|qa_outputs)\.(\w+)", r"classifier.\1"),
    ),
)
