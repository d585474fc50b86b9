"""Llama, Mistral and SmolLM2; Touvron et al. 2023, Jiang et al. 2023, Allal et al. 2025."""

from __future__ import annotations

from typing import Any

from workbench.errors import ModelError
from workbench.models.configuration import DecoderConfig, TransformerConfig
from workbench.models.decoder import TransformerDecoder
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.sequence_classification import TransformerDecoderForSequenceClassification
from workbench.models.heads.token_classification import TransformerDecoderForTokenClassification
from workbench.models.imports.mapping import (
    GATED,
    ModelFamily,
    activation,
    refuse,
    special_ids,
)
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
    refuse(hf, mlp_bias=False)
    rope = hf.rope_parameters
    if rope["rope_type"] != "default":
        raise ModelError(
            f"rotary positions of type {rope['rope_type']!r} have no built-in counterpart; allowed: 'default'; "
            "use implementation='hf'"
        )
    bias = bool(getattr(hf, "attention_bias", False))
    return DecoderConfig(
        vocab_size=hf.vocab_size,
        hidden_size=hf.hidden_size,
        attention=AttentionConfig(
            heads=hf.num_attention_heads,
            key_value_heads=hf.num_key_value_heads,
            head_size=hf.head_dim,
            bias=bias,
            output_bias=bias,
            window=getattr(hf, "sliding_window", None),
            dropout=hf.attention_dropout,
        ),
        positions=PositionConfig(
            kind="rotary", max_length=hf.max_position_embeddings, base=rope["rope_theta"]
        ),
        norm=NormConfig(kind="rms_norm", placement="pre", epsilon=hf.rms_norm_eps),
        feed_forward=FeedForwardConfig(
            activation=GATED[activation(hf.hidden_act)], size=hf.intermediate_size, bias=False
        ),
        embeddings=EmbeddingConfig(frozen_padding=hf.pad_token_id is not None),
        depth=DepthConfig(layers=hf.num_hidden_layers),
        initializer_range=hf.initializer_range,
        **special_ids(hf),
    )


_OLD, _NEW = r"layers\.(\d+)\.", r"stack.layers.\1."
_CLASSES = {
    "Model": TransformerDecoder,
    "ForCausalLM": TransformerDecoderForCausalLM,
    "ForSequenceClassification": TransformerDecoderForSequenceClassification,
    "ForTokenClassification": TransformerDecoderForTokenClassification,
}

FAMILY = ModelFamily(
    config=_config,
    classes={prefix + name: ours for prefix in ("Llama", "Mistral") for name, ours in _CLASSES.items()},
    prefix="model",
    body=(
        (r"embed_tokens\.weight", r"stack.embeddings.tokens.weight"),
        (_OLD + r"input_layernorm\.(\w+)", _NEW + r"attention_residual.norm.\2"),
        (_OLD + r"post_attention_layernorm\.(\w+)", _NEW + r"feed_forward_residual.norm.\2"),
        (_OLD + r"self_attn\.q_proj\.(\w+)", _NEW + r"attention.query.\2"),
        (_OLD + r"self_attn\.k_proj\.(\w+)", _NEW + r"attention.key.\2"),
        (_OLD + r"self_attn\.v_proj\.(\w+)", _NEW + r"attention.value.\2"),
        (_OLD + r"self_attn\.o_proj\.(\w+)", _NEW + r"attention.output.\2"),
        (_OLD + r"mlp\.(gate|up|down)_proj\.(\w+)", _NEW + r"feed_forward.\2.\3"),
        (r"norm\.(\w+)", r"stack.final_norm.\1"),
    ),
    head=(
        (r"lm_head\.weight", r"head.output.weight"),
        (r"score\.(\w+)", r"classifier.\1"),
    ),
)
