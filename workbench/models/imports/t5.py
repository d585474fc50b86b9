"""T5, its version 1.1, and ByT5; Raffel et al. 2020, Xue et al. 2022."""

from __future__ import annotations

from typing import Any

from workbench.models.configuration import EncoderDecoderConfig, TransformerConfig
from workbench.models.encoder_decoder import TransformerEncoderDecoder
from workbench.models.heads.generation import TransformerEncoderDecoderForConditionalGeneration
from workbench.models.imports.mapping import (
    GATED,
    ModelFamily,
    activation,
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

__all__ = ["FAMILY"]


def _config(hf: Any, class_name: str) -> TransformerConfig:
    inner = activation(hf.dense_act_fn)
    return EncoderDecoderConfig(
        vocab_size=hf.vocab_size,
        hidden_size=hf.d_model,
        attention=AttentionConfig(
            heads=hf.num_heads,
            head_size=hf.d_kv,
            bias=False,
            output_bias=False,
            scaling=1.0,  # the initial weights make up for it
            dropout=hf.dropout_rate,
        ),
        positions=PositionConfig(
            kind="relative",
            buckets=hf.relative_attention_num_buckets,
            max_distance=hf.relative_attention_max_distance,
        ),
        norm=NormConfig(kind="rms_norm", placement="pre", epsilon=hf.layer_norm_epsilon),
        feed_forward=FeedForwardConfig(
            activation=GATED[inner] if hf.is_gated_act else inner,
            size=hf.d_ff,
            bias=False,
            dropout=hf.dropout_rate,
        ),
        embeddings=EmbeddingConfig(dropout=hf.dropout_rate),
        depth=DepthConfig(layers=hf.num_layers, decoder_layers=hf.num_decoder_layers),
        head=HeadConfig(scaled=hf.scale_decoder_outputs, pooler=None),
        dropout=hf.dropout_rate,
        **special_ids(hf),
    )


_SIDE = r"(encoder|decoder)\."
_OLD, _NEW = _SIDE + r"block\.(\d+)\.layer\.", r"\1.stack.layers.\2."
_DECODER = r"(decoder)\.block\.(\d+)\.layer\."
_SELF, _CROSS = r"0\.SelfAttention\.", r"1\.EncDecAttention\."

FAMILY = ModelFamily(
    config=_config,
    classes={
        "T5Model": TransformerEncoderDecoder,
        "T5ForConditionalGeneration": TransformerEncoderDecoderForConditionalGeneration,
    },
    body=(
        (r"shared\.weight", r"encoder.stack.embeddings.tokens.weight"),
        (_SIDE + r"embed_tokens\.weight", r"\1.stack.embeddings.tokens.weight"),
        (_OLD + _SELF + r"relative_attention_bias\.weight", r"\1.stack.embeddings.positions.table.weight"),
        (_OLD + _SELF + r"q\.weight", _NEW + r"attention.query.weight"),
        (_OLD + _SELF + r"k\.weight", _NEW + r"attention.key.weight"),
        (_OLD + _SELF + r"v\.weight", _NEW + r"attention.value.weight"),
        (_OLD + _SELF + r"o\.weight", _NEW + r"attention.output.weight"),
        (_OLD + r"0\.layer_norm\.weight", _NEW + r"attention_residual.norm.weight"),
        (_OLD + _CROSS + r"q\.weight", _NEW + r"cross_attention.query.weight"),
        (_OLD + _CROSS + r"k\.weight", _NEW + r"cross_attention.key.weight"),
        (_OLD + _CROSS + r"v\.weight", _NEW + r"cross_attention.value.weight"),
        (_OLD + _CROSS + r"o\.weight", _NEW + r"cross_attention.output.weight"),
        (_DECODER + r"1\.layer_norm\.weight", _NEW + r"cross_attention_residual.norm.weight"),
        (_OLD + r"[12]\.DenseReluDense\.wi_0\.weight", _NEW + r"feed_forward.gate.weight"),
        (_OLD + r"[12]\.DenseReluDense\.wi(?:_1)?\.weight", _NEW + r"feed_forward.up.weight"),
        (_OLD + r"[12]\.DenseReluDense\.wo\.weight", _NEW + r"feed_forward.down.weight"),
        (_OLD + r"[12]\.layer_norm\.weight", _NEW + r"feed_forward_residual.norm.weight"),
        (_SIDE + r"final_layer_norm\.weight", r"\1.stack.final_norm.weight"),
    ),
    head=((r"lm_head\.weight", r"head.output.weight"),),
)
