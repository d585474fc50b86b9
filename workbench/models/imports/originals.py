"""Where transformers' configurations find their settings in ours: one table for all families that models export to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import transformers as hf

from workbench.models.configuration import TransformerConfig
from workbench.models.imports.mapping import GATED, activation_name, special_ids

__all__ = ["original_config"]

# a setting of ours by dotted name, or how it is found
Where = str | Callable[[TransformerConfig], Any]


def _activation(config: TransformerConfig) -> str:
    """Transformers' name of the activation, also of one that gates."""
    name = config.feed_forward.activation
    return activation_name(next((plain for plain, gated in GATED.items() if gated == name), name))


def _t5_feed_forward(config: TransformerConfig) -> str:
    gated = config.feed_forward.activation in GATED.values()
    return f"gated-{_activation(config)}" if gated else _activation(config)


def _embedding_size(config: TransformerConfig) -> int:
    return config.embeddings.size or config.hidden_size


_EVERY: dict[str, Where] = {
    "vocab_size": "vocab_size",
    "initializer_range": "initializer_range",
    "tie_word_embeddings": "tie_word_embeddings",
}

_BERT: dict[str, Where] = {
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "attention_probs_dropout_prob": "attention.dropout",
    "max_position_embeddings": "positions.max_length",
    "layer_norm_eps": "norm.epsilon",
    "hidden_act": _activation,
    "intermediate_size": "feed_forward.size",
    "type_vocab_size": lambda config: max(config.embeddings.segments, 1),
    "hidden_dropout_prob": "dropout",
    "num_hidden_layers": "depth.layers",
    "classifier_dropout": "classifier_dropout",
}

_LLAMA: dict[str, Where] = {
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "attention_dropout": "attention.dropout",
    "max_position_embeddings": "positions.max_length",
    "rope_parameters": lambda config: {"rope_type": "default", "rope_theta": config.positions.base},
    "rms_norm_eps": "norm.epsilon",
    "hidden_act": _activation,
    "intermediate_size": "feed_forward.size",
    "num_hidden_layers": "depth.layers",
}

# transformers' model type -> its configuration, and where each of its settings stands in ours
_ORIGINALS: Mapping[str, tuple[Any, Mapping[str, Where]]] = {
    "albert": (
        hf.AlbertConfig,
        {
            **{name: where for name, where in _BERT.items() if name != "classifier_dropout"},
            "classifier_dropout_prob": lambda config: config.classifier_dropout or 0.0,
            "embedding_size": _embedding_size,
            "num_hidden_groups": lambda config: config.depth.groups or 1,
        },
    ),
    "bart": (
        hf.BartConfig,
        {
            "d_model": "hidden_size",
            "encoder_attention_heads": "num_attention_heads",
            "decoder_attention_heads": "num_attention_heads",
            "attention_dropout": "attention.dropout",
            "max_position_embeddings": "positions.max_length",
            "activation_function": _activation,
            "encoder_ffn_dim": "feed_forward.size",
            "decoder_ffn_dim": "feed_forward.size",
            "activation_dropout": "feed_forward.dropout",
            "scale_embedding": "embeddings.scaled",
            "dropout": "dropout",
            "encoder_layers": "depth.layers",
            "decoder_layers": "num_hidden_layers",
            "init_std": "initializer_range",
        },
    ),
    "bert": (hf.BertConfig, _BERT),
    "bloom": (
        hf.BloomConfig,
        {
            "hidden_size": "hidden_size",
            "n_head": "num_attention_heads",
            "n_layer": "depth.layers",
            "attention_dropout": "attention.dropout",
            "layer_norm_epsilon": "norm.epsilon",
            "hidden_dropout": "dropout",
        },
    ),
    "distilbert": (
        hf.DistilBertConfig,
        {
            "dim": "hidden_size",
            "n_heads": "num_attention_heads",
            "attention_dropout": "attention.dropout",
            "max_position_embeddings": "positions.max_length",
            "activation": _activation,
            "hidden_dim": "feed_forward.size",
            "dropout": "dropout",
            "n_layers": "depth.layers",
            "seq_classif_dropout": lambda config: config.classifier_dropout or 0.0,
        },
    ),
    "electra": (hf.ElectraConfig, {**_BERT, "embedding_size": _embedding_size}),
    "gpt2": (
        hf.GPT2Config,
        {
            "n_embd": "hidden_size",
            "n_head": "num_attention_heads",
            "attn_pdrop": "attention.dropout",
            "n_positions": "positions.max_length",
            "layer_norm_epsilon": "norm.epsilon",
            "activation_function": _activation,
            "n_inner": "feed_forward.size",
            "embd_pdrop": "embeddings.dropout",
            "n_layer": "depth.layers",
            "resid_pdrop": "dropout",
        },
    ),
    "llama": (hf.LlamaConfig, {**_LLAMA, "attention_bias": "attention.bias"}),
    "mistral": (hf.MistralConfig, {**_LLAMA, "sliding_window": "attention.window"}),
    "roberta": (
        hf.RobertaConfig,
        {
            **_BERT,
            # positions are counted from behind the padding id, in one table with it
            "pad_token_id": lambda config: 1 if config.pad_token_id is None else config.pad_token_id,
            "max_position_embeddings": lambda config: config.positions.max_length + config.positions.offset,
        },
    ),
    "t5": (
        hf.T5Config,
        {
            "tie_word_embeddings": "head.scaled",  # so T5Config reads it
            "d_model": "hidden_size",
            "num_heads": "num_attention_heads",
            "d_kv": "head_dim",
            "dropout_rate": "dropout",
            "relative_attention_num_buckets": "positions.buckets",
            "relative_attention_max_distance": "positions.max_distance",
            "layer_norm_epsilon": "norm.epsilon",
            "feed_forward_proj": _t5_feed_forward,
            "d_ff": "feed_forward.size",
            "num_layers": "depth.layers",
            "num_decoder_layers": "num_hidden_layers",
        },
    ),
}


def original_config(model_type: str, config: TransformerConfig) -> Any:
    """Transformers' configuration of ``model_type`` that is nearest to ours; ``None`` for one that is not exported to.

    The family's ``config`` of it is ours again where the family can be what ours is.
    """
    if model_type not in _ORIGINALS:
        return None
    kind, names = _ORIGINALS[model_type]
    ids = {
        name: found
        for name, found in special_ids(config).items()
        if found is not None or name != "decoder_start_token_id"
    }
    settings = {
        theirs: where(config) if callable(where) else attrgetter(where)(config)
        for theirs, where in {**_EVERY, **names}.items()
    }
    return kind(**{**ids, **settings})
