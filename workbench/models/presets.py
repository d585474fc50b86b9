"""Configurations of published models by name, and tiny ones to learn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.errors import ModelError, did_you_mean
from workbench.models.ancestors import presets as ancestors
from workbench.models.built_in import BuiltInConfig
from workbench.models.configuration import (
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    TransformerConfig,
)
from workbench.models.parts import (
    AttentionConfig,
    DepthConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    FormConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
)

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedModel

__all__ = ["PRESETS", "Preset", "build", "describe", "preset", "preset_table"]


@dataclass(frozen=True)
class Preset:
    """A named configuration; ``source`` is the paper, or what it is for; ``auto`` the class that it is built as."""

    config: Callable[[], BuiltInConfig]
    source: str
    auto: str


def _transformer() -> TransformerConfig:
    return EncoderDecoderConfig(
        vocab_size=37000,
        hidden_size=512,
        attention=AttentionConfig(heads=8),
        positions=PositionConfig(kind="sinusoidal"),
        norm=NormConfig(placement="post", final=False),
        feed_forward=FeedForwardConfig(activation="relu", size=2048),
        embeddings=EmbeddingConfig(scaled=True, dropout=0.1),
        depth=DepthConfig(layers=6, decoder_layers=6),
        head=HeadConfig(pooler=None),
        dropout=0.1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )


def _bert(layers: int, width: int, heads: int) -> TransformerConfig:
    return EncoderConfig(
        vocab_size=30522,
        hidden_size=width,
        attention=AttentionConfig(heads=heads, dropout=0.1),
        positions=PositionConfig(kind="learned", max_length=512),
        norm=NormConfig(placement="post", epsilon=1e-12, embeddings=True, final=False),
        feed_forward=FeedForwardConfig(activation="gelu", size=4 * width),
        embeddings=EmbeddingConfig(segments=2, dropout=0.1, frozen_padding=True),
        depth=DepthConfig(layers=layers),
        head=HeadConfig(transform="gelu", bias=True),
        dropout=0.1,
        pad_token_id=0,
    )


def _roberta() -> TransformerConfig:
    config = _bert(12, 768, 12)
    config.vocab_size, config.pad_token_id, config.bos_token_id, config.eos_token_id = 50265, 1, 0, 2
    config.positions = replace(config.positions, offset=2, skip_padding=True)
    config.embeddings = replace(config.embeddings, segments=1)
    config.norm = replace(config.norm, epsilon=1e-5)
    return config


def _albert() -> TransformerConfig:
    config = _bert(12, 768, 12)
    config.vocab_size, config.dropout, config.classifier_dropout = 30000, 0.0, 0.1
    config.attention = replace(config.attention, dropout=0.0)
    config.feed_forward = replace(config.feed_forward, activation="gelu_tanh")
    config.embeddings = replace(config.embeddings, size=128, dropout=0.0)
    config.depth = DepthConfig(layers=12, groups=1)
    config.head = replace(config.head, transform="gelu_tanh")
    return config


def _distilbert() -> TransformerConfig:
    config = _bert(6, 768, 12)
    config.embeddings = replace(config.embeddings, segments=0)
    config.head = replace(config.head, pooler=None)
    return config


def _electra(width: int, heads: int) -> TransformerConfig:
    config = _bert(12, width, heads)
    config.embeddings = replace(config.embeddings, size=128)
    config.head = replace(config.head, pooler=None)
    return config


def _gpt(layers: int, width: int, heads: int, *, is_first: bool = False) -> TransformerConfig:
    return DecoderConfig(
        vocab_size=40478 if is_first else 50257,
        hidden_size=width,
        attention=AttentionConfig(heads=heads, dropout=0.1),
        positions=PositionConfig(kind="learned", max_length=512 if is_first else 1024),
        norm=NormConfig(placement="post" if is_first else "pre", final=not is_first),
        feed_forward=FeedForwardConfig(activation="gelu_tanh", size=4 * width),
        embeddings=EmbeddingConfig(dropout=0.1),
        depth=DepthConfig(layers=layers),
        dropout=0.1,
        bos_token_id=None if is_first else 50256,
        eos_token_id=None if is_first else 50256,
    )


def _t5(layers: int, width: int, heads: int, size: int) -> TransformerConfig:
    return EncoderDecoderConfig(
        vocab_size=32128,
        hidden_size=width,
        attention=AttentionConfig(
            heads=heads, head_size=64, bias=False, output_bias=False, scaling=1.0, dropout=0.1
        ),
        positions=PositionConfig(kind="relative"),
        norm=NormConfig(kind="rms_norm", placement="pre", epsilon=1e-6),
        feed_forward=FeedForwardConfig(activation="relu", size=size, bias=False, dropout=0.1),
        embeddings=EmbeddingConfig(dropout=0.1),
        depth=DepthConfig(layers=layers, decoder_layers=layers),
        head=HeadConfig(scaled=True, pooler=None),
        dropout=0.1,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )


def _byt5() -> TransformerConfig:
    config = _t5(12, 1472, 6, 3584)
    config.vocab_size, config.tie_word_embeddings = 384, False
    config.feed_forward = replace(config.feed_forward, activation="geglu_tanh")
    config.depth = DepthConfig(layers=12, decoder_layers=4)
    config.head = replace(config.head, scaled=False)
    return config


def _bart() -> TransformerConfig:
    return EncoderDecoderConfig(
        vocab_size=50265,
        hidden_size=768,
        attention=AttentionConfig(heads=12),
        positions=PositionConfig(kind="learned", max_length=1024, offset=2),
        norm=NormConfig(placement="post", embeddings=True, final=False),
        feed_forward=FeedForwardConfig(activation="gelu", size=3072),
        embeddings=EmbeddingConfig(dropout=0.1, frozen_padding=True),
        depth=DepthConfig(layers=6, decoder_layers=6),
        head=HeadConfig(pooler=None),
        dropout=0.1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
    )


def _llama(*, key_value_heads: int, window: int | None = None) -> TransformerConfig:
    return DecoderConfig(
        vocab_size=32000,
        hidden_size=256,
        attention=AttentionConfig(
            heads=8, key_value_heads=key_value_heads, bias=False, output_bias=False, window=window
        ),
        positions=PositionConfig(kind="rotary", max_length=2048),
        norm=NormConfig(kind="rms_norm", placement="pre", epsilon=1e-5),
        feed_forward=FeedForwardConfig(activation="swiglu", size=688, bias=False),
        depth=DepthConfig(layers=4),
        bos_token_id=1,
        eos_token_id=2,
    )


def _bloom() -> TransformerConfig:
    return DecoderConfig(
        vocab_size=32000,
        hidden_size=256,
        attention=AttentionConfig(heads=8),
        positions=PositionConfig(kind="alibi", max_length=2048),
        norm=NormConfig(placement="pre", embeddings=True),
        feed_forward=FeedForwardConfig(activation="gelu_tanh", size=1024),
        depth=DepthConfig(layers=4),
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
    )


def _with_form(kind: str, *, is_causal: bool = False, length: int = 1024, **sizes: Any) -> TransformerConfig:
    """A small encoder as in BERT, or decoder as in GPT-2, with another form of self-attention."""
    config = _gpt(4, 256, 4) if is_causal else _bert(4, 256, 4)
    config.form = FormConfig(kind=kind, **sizes)
    config.positions = replace(config.positions, max_length=length)
    return config


def _mixture(**settings: Any) -> TransformerConfig:
    """A small decoder as in GPT-2 whose feed-forward parts are mixtures of experts."""
    config = _gpt(4, 128, 4)
    config.feed_forward = replace(config.feed_forward, size=256, **settings)
    return config


def _universal() -> TransformerConfig:
    """A small encoder-decoder as in Vaswani et al. 2017 whose layers are steps of one, and halt."""
    config = _transformer()
    config.hidden_size, config.attention = 128, AttentionConfig(heads=4)
    config.feed_forward = FeedForwardConfig(activation="relu", size=256)
    config.depth = DepthConfig(layers=6, groups=1, step_encoding=True, halting=0.99)
    return config


def _funnel() -> TransformerConfig:
    """A small encoder as in BERT, three groups of two layers, and two for tokens."""
    config = _bert(8, 128, 2)
    config.depth = DepthConfig(layers=8, pool_every=2, upsampled_layers=2)
    return config


def _without_norms(scale: str) -> TransformerConfig:
    """A small decoder as in GPT-2 without norms, which a learned number in each branch makes trainable."""
    config = _gpt(4, 128, 4)
    config.norm = NormConfig(kind="none", residual_scale=scale, final=False)
    return config


_MASKED, _CAUSAL, _SEQ2SEQ = "AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM"
_PRE_TRAINING, _DETECTOR = "AutoModelForPreTraining", "AutoModelForReplacedTokenDetection"
_BERT, _GPT2, _T5 = "Devlin et al. 2019", "Radford et al. 2019", "Raffel et al. 2020"
_CONVOLUTION = "Wu et al. 2019, made small"
_SMALL_BERT = "Turc et al. 2019"
_PERFORMER = "Choromanski et al. 2021, made small"
_SYNTHESIZER = "Tay et al. 2021, made small"

PRESETS = {
    "transformer-base": Preset(_transformer, "Vaswani et al. 2017, table 3", _SEQ2SEQ),
    "bert-base": Preset(lambda: _bert(12, 768, 12), _BERT, "AutoModelForPreTraining"),
    "bert-large": Preset(lambda: _bert(24, 1024, 16), _BERT, "AutoModelForPreTraining"),
    "bert-mini": Preset(lambda: _bert(4, 256, 4), _SMALL_BERT, "AutoModelForPreTraining"),
    "bert-tiny": Preset(lambda: _bert(2, 128, 2), _SMALL_BERT, "AutoModelForPreTraining"),
    "roberta-base": Preset(_roberta, "Liu et al. 2019", _MASKED),
    "albert-base": Preset(_albert, "Lan et al. 2020, version 2", "AutoModelForPreTraining"),
    "distilbert-base": Preset(_distilbert, "Sanh et al. 2019", _MASKED),
    "electra-small": Preset(lambda: _electra(256, 4), "Clark et al. 2020, discriminator", _DETECTOR),
    "electra-small-generator": Preset(lambda: _electra(64, 1), "Clark et al. 2020, generator", _MASKED),
    "gpt": Preset(lambda: _gpt(12, 768, 12, is_first=True), "Radford et al. 2018", _CAUSAL),
    "gpt2": Preset(lambda: _gpt(12, 768, 12), _GPT2, _CAUSAL),
    "gpt2-medium": Preset(lambda: _gpt(24, 1024, 16), _GPT2, _CAUSAL),
    "gpt2-large": Preset(lambda: _gpt(36, 1280, 20), _GPT2, _CAUSAL),
    "gpt2-xl": Preset(lambda: _gpt(48, 1600, 25), _GPT2, _CAUSAL),
    "t5-small": Preset(lambda: _t5(6, 512, 8, 2048), _T5, _SEQ2SEQ),
    "t5-base": Preset(lambda: _t5(12, 768, 12, 3072), _T5, _SEQ2SEQ),
    "byt5-small": Preset(_byt5, "Xue et al. 2022", _SEQ2SEQ),
    "bart-base": Preset(_bart, "Lewis et al. 2020", _SEQ2SEQ),
    "llama-tiny": Preset(lambda: _llama(key_value_heads=8), "Touvron et al. 2023, made tiny", _CAUSAL),
    "mistral-tiny": Preset(
        lambda: _llama(key_value_heads=2, window=64), "Jiang et al. 2023, made tiny", _CAUSAL
    ),
    "bigbird-mini": Preset(lambda: _with_form("bigbird"), "Zaheer et al. 2020, made small", _MASKED),
    "longformer-mini": Preset(lambda: _with_form("longformer"), "Beltagy et al. 2020, made small", _MASKED),
    "longformer-decoder-mini": Preset(
        lambda: _with_form("longformer", is_causal=True), "Beltagy et al. 2020, made small", _CAUSAL
    ),
    "lightconv-mini": Preset(lambda: _with_form("lightweight_conv", kernel=7), _CONVOLUTION, _MASKED),
    "dynamicconv-mini": Preset(lambda: _with_form("dynamic_conv", kernel=7), _CONVOLUTION, _MASKED),
    "dynamicconv-decoder-mini": Preset(
        lambda: _with_form("dynamic_conv", is_causal=True, kernel=7), _CONVOLUTION, _CAUSAL
    ),
    "linformer-mini": Preset(lambda: _with_form("linformer"), "Wang et al. 2020, made small", _MASKED),
    "performer-mini": Preset(lambda: _with_form("performer"), _PERFORMER, _MASKED),
    "performer-decoder-mini": Preset(lambda: _with_form("performer", is_causal=True), _PERFORMER, _CAUSAL),
    "nystromformer-mini": Preset(
        lambda: _with_form("nystromformer", kernel=65), "Xiong et al. 2021, made small", _MASKED
    ),
    "reformer-mini": Preset(lambda: _with_form("reformer"), "Kitaev et al. 2020, made small", _MASKED),
    "reformer-decoder-mini": Preset(
        lambda: _with_form("reformer", is_causal=True), "Kitaev et al. 2020, made small", _CAUSAL
    ),
    "synthesizer-dense-mini": Preset(
        lambda: _with_form("synthesizer_dense", length=512), _SYNTHESIZER, _MASKED
    ),
    "synthesizer-factorised-mini": Preset(
        lambda: _with_form("synthesizer_factorised", length=512, factor=32), _SYNTHESIZER, _MASKED
    ),
    "synthesizer-fixed-mini": Preset(
        lambda: _with_form("synthesizer_fixed", length=512), _SYNTHESIZER, _MASKED
    ),
    "synthesizer-random-mini": Preset(
        lambda: _with_form("synthesizer_random", length=512), _SYNTHESIZER, _MASKED
    ),
    "synthesizer-decoder-mini": Preset(
        lambda: _with_form("synthesizer_dense", length=512, is_causal=True), _SYNTHESIZER, _CAUSAL
    ),
    "mixture-tiny": Preset(
        lambda: _mixture(experts=8, experts_per_token=2, router_noise=True),
        "Shazeer et al. 2017, made tiny",
        _CAUSAL,
    ),
    "switch-tiny": Preset(
        lambda: _mixture(experts=8, expert_every=2, capacity_factor=1.25),
        "Fedus et al. 2022, made tiny",
        _CAUSAL,
    ),
    "universal-tiny": Preset(_universal, "Dehghani et al. 2019, made tiny", _SEQ2SEQ),
    "funnel-tiny": Preset(_funnel, "Dai et al. 2020, made tiny", _MASKED),
    "rezero-tiny": Preset(lambda: _without_norms("rezero"), "Bachlechner et al. 2020, made tiny", _CAUSAL),
    "fixup-tiny": Preset(lambda: _without_norms("fixup"), "Zhang et al. 2019, made tiny", _CAUSAL),
    "bloom-tiny": Preset(_bloom, "BigScience 2022, made tiny", _CAUSAL),
    "bahdanau": Preset(ancestors.bahdanau, "Bahdanau et al. 2015, RNNsearch", _SEQ2SEQ),
    "bahdanau-tiny": Preset(
        lambda: ancestors.bahdanau(8000, 128, 128, 128, 0.1), "Bahdanau et al. 2015, made tiny", _SEQ2SEQ
    ),
    "elmo": Preset(ancestors.elmo, "Peters et al. 2018", _PRE_TRAINING),
    "elmo-tiny": Preset(
        lambda: ancestors.elmo(8000, 64, 128), "Peters et al. 2018, made tiny", _PRE_TRAINING
    ),
    "skip-gram": Preset(ancestors.skip_gram, "Mikolov et al. 2013, section 3", _PRE_TRAINING),
    "skip-gram-tiny": Preset(
        lambda: ancestors.skip_gram(8000, 64), "Mikolov et al. 2013, made tiny", _PRE_TRAINING
    ),
    "luong": Preset(ancestors.luong, "Luong et al. 2015, section 4.1", _SEQ2SEQ),
    "luong-tiny": Preset(
        lambda: ancestors.luong(8000, 128, 2, 0.1), "Luong et al. 2015, made tiny", _SEQ2SEQ
    ),
    "convs2s": Preset(ancestors.convs2s, "Gehring et al. 2017, English-Romanian", _SEQ2SEQ),
    "convs2s-tiny": Preset(
        lambda: ancestors.convs2s(8000, 128, 3), "Gehring et al. 2017, made tiny", _SEQ2SEQ
    ),
}


def _get(name: str) -> Preset:
    if name not in PRESETS:
        raise ModelError(f"unknown preset {name!r}; {did_you_mean(name, list(PRESETS))}")
    return PRESETS[name]


def preset(name: str) -> BuiltInConfig:
    """A fresh configuration; raises :class:`~workbench.errors.ModelError` with near names if unknown."""
    return _get(name).config()


def model_class(name: str) -> type[PreTrainedModel]:
    """The class that the published model of this name was pre-trained as."""
    from workbench.models.auto import AUTO_CLASSES

    chosen = _get(name)
    return AUTO_CLASSES[type(chosen.config())][chosen.auto]


def build(name: str) -> PreTrainedModel:
    """The model with fresh random weights."""
    return model_class(name)(preset(name))


def preset_table() -> pd.DataFrame:
    """One row a preset: shape, layers, width, heads, parameters in millions, source."""
    import pandas as pd

    from workbench.models.size import num_parameters

    rows = []
    for name, chosen in PRESETS.items():
        config = chosen.config()
        rows.append(
            {
                "preset": name,
                "shape": config.model_type.removeprefix("workbench-"),
                "layers": config.layer_counts(),
                "width": config.hidden_size,
                "heads": config.num_attention_heads,
                "parameters (M)": round(num_parameters(config, model_class(name)) / 1e6, 1),
                "source": chosen.source,
            }
        )
    return pd.DataFrame(rows)


def describe(name: str) -> str:
    """Configuration as YAML, size, cost, and a diagram of one block."""
    from workbench.models.diagram import block_diagram
    from workbench.models.size import flops_per_token, num_active_parameters, num_parameters

    config, built_as = preset(name), model_class(name)
    length = min(512, config.max_position_embeddings or 512)
    total, active = num_parameters(config, built_as), num_active_parameters(config, built_as)
    used = "" if active == total else f", {active:,} of them for each token"
    return "\n".join(
        (
            f"{name} ({_get(name).source}), built as {built_as.__name__}",
            f"parameters: {total:,}{used}",
            f"operations per token at {length} tokens: {flops_per_token(config, length, built_as):,} forward",
            "",
            config.to_yaml(),
            block_diagram(config),
        )
    )
