"""BART; Lewis et al. 2020."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from workbench.errors import ModelError
from workbench.models.configuration import EncoderDecoderConfig, TransformerConfig
from workbench.models.encoder_decoder import TransformerEncoderDecoder
from workbench.models.heads.generation import TransformerEncoderDecoderForConditionalGeneration
from workbench.models.imports.mapping import (
    ModelFamily,
    Weights,
    activation,
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

__all__ = ["FAMILY"]

_RESERVED_POSITIONS = 2


def _config(hf: Any, class_name: str) -> TransformerConfig:
    refuse(hf, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
    for name in ("attention_heads", "ffn_dim"):
        sides = getattr(hf, f"encoder_{name}"), getattr(hf, f"decoder_{name}")
        if sides[0] != sides[1]:
            raise ModelError(
                f"bart with {name} = {sides} in encoder and decoder has no built-in counterpart; "
                "allowed: equal ones; use implementation='hf'"
            )
    return EncoderDecoderConfig(
        vocab_size=hf.vocab_size,
        hidden_size=hf.d_model,
        attention=AttentionConfig(heads=hf.encoder_attention_heads, dropout=hf.attention_dropout),
        positions=PositionConfig(
            kind="learned", max_length=hf.max_position_embeddings, offset=_RESERVED_POSITIONS
        ),
        norm=NormConfig(placement="post", embeddings=True, final=False),
        feed_forward=FeedForwardConfig(
            activation=activation(hf.activation_function),
            size=hf.encoder_ffn_dim,
            dropout=hf.activation_dropout,
        ),
        embeddings=EmbeddingConfig(
            scaled=hf.scale_embedding, dropout=hf.dropout, frozen_padding=hf.pad_token_id is not None
        ),
        depth=DepthConfig(layers=hf.encoder_layers, decoder_layers=hf.decoder_layers),
        head=HeadConfig(bias=True, pooler=None),
        dropout=hf.dropout,
        initializer_range=hf.init_std,
        **special_ids(hf),
    )


def _flatten(name: str, weight: Tensor, hf: Any) -> Weights:
    """The bias of the logits is kept as (1, V); ours is (V,)."""
    return {name: weight.flatten()}


_SIDE = r"(encoder|decoder)\."
_OLD, _NEW = _SIDE + r"layers\.(\d+)\.", r"\1.stack.layers.\2."

FAMILY = ModelFamily(
    config=_config,
    classes={
        "BartModel": TransformerEncoderDecoder,
        "BartForConditionalGeneration": TransformerEncoderDecoderForConditionalGeneration,
    },
    prefix="model",
    body=(
        (r"shared\.weight", r"encoder.stack.embeddings.tokens.weight"),
        (_SIDE + r"embed_tokens\.weight", r"\1.stack.embeddings.tokens.weight"),
        (_SIDE + r"embed_positions\.weight", r"\1.stack.embeddings.positions.table.weight"),
        (_SIDE + r"layernorm_embedding\.(\w+)", r"\1.stack.embeddings.norm.\2"),
        (_OLD + r"self_attn\.q_proj\.(\w+)", _NEW + r"attention.query.\3"),
        (_OLD + r"self_attn\.k_proj\.(\w+)", _NEW + r"attention.key.\3"),
        (_OLD + r"self_attn\.v_proj\.(\w+)", _NEW + r"attention.value.\3"),
        (_OLD + r"self_attn\.out_proj\.(\w+)", _NEW + r"attention.output.\3"),
        (_OLD + r"self_attn_layer_norm\.(\w+)", _NEW + r"attention_residual.norm.\3"),
        (_OLD + r"encoder_attn\.q_proj\.(\w+)", _NEW + r"cross_attention.query.\3"),
        (_OLD + r"encoder_attn\.k_proj\.(\w+)", _NEW + r"cross_attention.key.\3"),
        (_OLD + r"encoder_attn\.v_proj\.(\w+)", _NEW + r"cross_attention.value.\3"),
        (_OLD + r"encoder_attn\.out_proj\.(\w+)", _NEW + r"cross_attention.output.\3"),
        (_OLD + r"encoder_attn_layer_norm\.(\w+)", _NEW + r"cross_attention_residual.norm.\3"),
        (_OLD + r"fc1\.(\w+)", _NEW + r"feed_forward.up.\3"),
        (_OLD + r"fc2\.(\w+)", _NEW + r"feed_forward.down.\3"),
        (_OLD + r"final_layer_norm\.(\w+)", _NEW + r"feed_forward_residual.norm.\3"),
    ),
    head=(
        (r"lm_head\.weight", r"head.output.weight"),
        (r"final_logits_bias", r"head.output.bias"),
    ),
    splits={r"final_logits_bias": _flatten},
)
