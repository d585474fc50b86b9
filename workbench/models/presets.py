"""Configurations of published models by name, and tiny ones to learn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import ModelError, did_you_mean
from workbench.models import published, variants
from workbench.models.ancestors import presets as ancestors
from workbench.models.built_in import BuiltInConfig

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


_MASKED, _CAUSAL, _SEQ2SEQ = "AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM"
_PRE_TRAINING, _DETECTOR = "AutoModelForPreTraining", "AutoModelForReplacedTokenDetection"
_BERT, _GPT2, _T5 = "Devlin et al. 2019", "Radford et al. 2019", "Raffel et al. 2020"
_CONVOLUTION = "Wu et al. 2019, made small"
_SMALL_BERT = "Turc et al. 2019"
_PERFORMER = "Choromanski et al. 2021, made small"
_SYNTHESIZER = "Tay et al. 2021, made small"

PRESETS = {
    "transformer-base": Preset(published.transformer, "Vaswani et al. 2017, table 3", _SEQ2SEQ),
    "bert-base": Preset(lambda: published.bert(12, 768, 12), _BERT, "AutoModelForPreTraining"),
    "bert-large": Preset(lambda: published.bert(24, 1024, 16), _BERT, "AutoModelForPreTraining"),
    "bert-mini": Preset(lambda: published.bert(4, 256, 4), _SMALL_BERT, "AutoModelForPreTraining"),
    "bert-tiny": Preset(lambda: published.bert(2, 128, 2), _SMALL_BERT, "AutoModelForPreTraining"),
    "roberta-base": Preset(published.roberta, "Liu et al. 2019", _MASKED),
    "albert-base": Preset(published.albert, "Lan et al. 2020, version 2", "AutoModelForPreTraining"),
    "distilbert-base": Preset(published.distilbert, "Sanh et al. 2019", _MASKED),
    "electra-small": Preset(lambda: published.electra(256, 4), "Clark et al. 2020, discriminator", _DETECTOR),
    "electra-small-generator": Preset(
        lambda: published.electra(64, 1), "Clark et al. 2020, generator", _MASKED
    ),
    "gpt": Preset(lambda: published.gpt(12, 768, 12, is_first=True), "Radford et al. 2018", _CAUSAL),
    "gpt2": Preset(lambda: published.gpt(12, 768, 12), _GPT2, _CAUSAL),
    "gpt2-medium": Preset(lambda: published.gpt(24, 1024, 16), _GPT2, _CAUSAL),
    "gpt2-large": Preset(lambda: published.gpt(36, 1280, 20), _GPT2, _CAUSAL),
    "gpt2-xl": Preset(lambda: published.gpt(48, 1600, 25), _GPT2, _CAUSAL),
    "t5-small": Preset(lambda: published.t5(6, 512, 8, 2048), _T5, _SEQ2SEQ),
    "t5-base": Preset(lambda: published.t5(12, 768, 12, 3072), _T5, _SEQ2SEQ),
    "byt5-small": Preset(published.byt5, "Xue et al. 2022", _SEQ2SEQ),
    "bart-base": Preset(published.bart, "Lewis et al. 2020", _SEQ2SEQ),
    "llama-tiny": Preset(
        lambda: published.llama(key_value_heads=8), "Touvron et al. 2023, made tiny", _CAUSAL
    ),
    "mistral-tiny": Preset(
        lambda: published.llama(key_value_heads=2, window=64), "Jiang et al. 2023, made tiny", _CAUSAL
    ),
    "bigbird-mini": Preset(lambda: variants.with_form("bigbird"), "Zaheer et al. 2020, made small", _MASKED),
    "longformer-mini": Preset(
        lambda: variants.with_form("longformer"), "Beltagy et al. 2020, made small", _MASKED
    ),
    "longformer-decoder-mini": Preset(
        lambda: variants.with_form("longformer", is_causal=True), "Beltagy et al. 2020, made small", _CAUSAL
    ),
    "lightconv-mini": Preset(lambda: variants.with_form("lightweight_conv", kernel=7), _CONVOLUTION, _MASKED),
    "dynamicconv-mini": Preset(lambda: variants.with_form("dynamic_conv", kernel=7), _CONVOLUTION, _MASKED),
    "dynamicconv-decoder-mini": Preset(
        lambda: variants.with_form("dynamic_conv", is_causal=True, kernel=7), _CONVOLUTION, _CAUSAL
    ),
    "linformer-mini": Preset(
        lambda: variants.with_form("linformer"), "Wang et al. 2020, made small", _MASKED
    ),
    "performer-mini": Preset(lambda: variants.with_form("performer"), _PERFORMER, _MASKED),
    "performer-decoder-mini": Preset(
        lambda: variants.with_form("performer", is_causal=True), _PERFORMER, _CAUSAL
    ),
    "nystromformer-mini": Preset(
        lambda: variants.with_form("nystromformer", kernel=65), "Xiong et al. 2021, made small", _MASKED
    ),
    "reformer-mini": Preset(
        lambda: variants.with_form("reformer"), "Kitaev et al. 2020, made small", _MASKED
    ),
    "reformer-decoder-mini": Preset(
        lambda: variants.with_form("reformer", is_causal=True), "Kitaev et al. 2020, made small", _CAUSAL
    ),
    "synthesizer-dense-mini": Preset(
        lambda: variants.with_form("synthesizer_dense", length=512), _SYNTHESIZER, _MASKED
    ),
    "synthesizer-factorised-mini": Preset(
        lambda: variants.with_form("synthesizer_factorised", length=512, factor=32), _SYNTHESIZER, _MASKED
    ),
    "synthesizer-fixed-mini": Preset(
        lambda: variants.with_form("synthesizer_fixed", length=512), _SYNTHESIZER, _MASKED
    ),
    "synthesizer-random-mini": Preset(
        lambda: variants.with_form("synthesizer_random", length=512), _SYNTHESIZER, _MASKED
    ),
    "synthesizer-decoder-mini": Preset(
        lambda: variants.with_form("synthesizer_dense", length=512, is_causal=True), _SYNTHESIZER, _CAUSAL
    ),
    "mixture-tiny": Preset(
        lambda: variants.mixture(experts=8, experts_per_token=2, router_noise=True),
        "Shazeer et al. 2017, made tiny",
        _CAUSAL,
    ),
    "switch-tiny": Preset(
        lambda: variants.mixture(experts=8, expert_every=2, capacity_factor=1.25),
        "Fedus et al. 2022, made tiny",
        _CAUSAL,
    ),
    "universal-tiny": Preset(variants.universal, "Dehghani et al. 2019, made tiny", _SEQ2SEQ),
    "funnel-tiny": Preset(variants.funnel, "Dai et al. 2020, made tiny", _MASKED),
    "rezero-tiny": Preset(
        lambda: variants.without_norms("rezero"), "Bachlechner et al. 2020, made tiny", _CAUSAL
    ),
    "fixup-tiny": Preset(lambda: variants.without_norms("fixup"), "Zhang et al. 2019, made tiny", _CAUSAL),
    "bloom-tiny": Preset(published.bloom, "BigScience 2022, made tiny", _CAUSAL),
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
