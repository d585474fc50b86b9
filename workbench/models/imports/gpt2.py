"""GPT-2; Radford et al. 2019."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from workbench.models.configuration import DecoderConfig, TransformerConfig
from workbench.models.decoder import TransformerDecoder
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.sequence_classification import TransformerDecoderForSequenceClassification
from workbench.models.heads.token_classification import TransformerDecoderForTokenClassification
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
    NormConfig,
    PositionConfig,
)

__all__ = ["FAMILY"]


def _config(hf: Any, class_name: str) -> TransformerConfig:
    refuse(hf, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    return DecoderConfig(
        vocab_size=hf.vocab_size,
        hidden_size=hf.n_embd,
        attention=AttentionConfig(heads=hf.n_head, dropout=hf.attn_pdrop),
        positions=PositionConfig(kind="learned", max_length=hf.n_positions),
        norm=NormConfig(placement="pre", epsilon=hf.layer_norm_epsilon),
        feed_forward=FeedForwardConfig(
            activation=activation(hf.activation_function), size=hf.n_inner or 4 * hf.n_embd
        ),
        embeddings=EmbeddingConfig(dropout=hf.embd_pdrop),
        depth=DepthConfig(layers=hf.n_layer),
        dropout=hf.resid_pdrop,
        initializer_range=hf.initializer_range,
        **special_ids(hf),
    )


def _turn(name: str, weight: Tensor, hf: Any) -> Weights:
    """GPT-2 keeps its matrices as (in, out); ours are (out, in)."""
    return {name: weight.T}


def _split(name: str, weight: Tensor, hf: Any) -> Weights:
    """One matrix (D, 3 D), or bias (3 D), holds query, key and value one after the other."""
    parts = weight.T.chunk(3) if weight.ndim == 2 else weight.chunk(3)
    return {name.replace("c_attn", part): w for part, w in zip(("query", "key", "value"), parts, strict=True)}


_OLD, _NEW = r"h\.(\d+)\.", r"stack.layers.\1."

FAMILY = ModelFamily(
    config=_config,
    classes={
        "GPT2Model": TransformerDecoder,
        "GPT2LMHeadModel": TransformerDecoderForCausalLM,
        "GPT2ForSequenceClassification": TransformerDecoderForSequenceClassification,
        "GPT2ForTokenClassification": TransformerDecoderForTokenClassification,
    },
    prefix="transformer",
    body=(
        (r"wte\.weight", r"stack.embeddings.tokens.weight"),
        (r"wpe\.weight", r"stack.embeddings.positions.table.weight"),
        (_OLD + r"ln_1\.(\w+)", _NEW + r"attention_residual.norm.\2"),
        (_OLD + r"ln_2\.(\w+)", _NEW + r"feed_forward_residual.norm.\2"),
        (_OLD + r"attn\.(query|key|value)\.(\w+)", _NEW + r"attention.\2.\3"),
        (_OLD + r"attn\.c_proj\.(\w+)", _NEW + r"attention.output.\2"),
        (_OLD + r"mlp\.c_fc\.(\w+)", _NEW + r"feed_forward.up.\2"),
        (_OLD + r"mlp\.c_proj\.(\w+)", _NEW + r"feed_forward.down.\2"),
        (r"ln_f\.(\w+)", r"stack.final_norm.\1"),
    ),
    head=(
        (r"lm_head\.weight", r"head.output.weight"),
        (r"(?:score|classifier)\.(\w+)", r"classifier.\1"),
    ),
    splits={r".*attn\.c_attn\.\w+": _split, r".*c_(proj|fc)\.weight": _turn},
)
