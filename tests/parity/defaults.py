"""Tiny models of every family from its default configuration, in which only sizes are smaller.

Sizes are widths, layers, heads, experts, and words of the vocabulary behind the last special token. Special token ids,
position tables, activations and all other options are those of the configuration class, so that what only a
default shows (no BOS id, no padding id, positions after the padding id) is met here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from workbench.models import Kind, LoadedModel
from workbench.trace.architectures import FAMILIES as OBSERVED
from workbench.trace.architectures import TINY, Architecture

__all__ = ["FAMILIES", "KINDS", "TEXTS", "Architecture", "build", "config_of", "loaded", "tokenizer_for"]

# What the families of workbench.trace.architectures set that is no size: here the default stays.
_OPTIONS = {
    "vocab_size", "max_position_embeddings", "n_positions", "max_seq_len", "max_encoder_position_embeddings",
    "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
    "attention_window", "window_size", "sliding_window",
}  # fmt: skip
_MORE: Mapping[str, Mapping[str, Any]] = {
    "convbert": {"embedding_size": 16},
    "deberta": {"pooler_hidden_size": 32},
    "deberta-v2": {"pooler_hidden_size": 32},
    "esm": {"vocab_size": 40, "pad_token_id": 1, "mask_token_id": 32},  # without defaults
    "luke": {"entity_vocab_size": 9, "entity_emb_size": 16},
    "xmod": {"default_language": "en_XX"},  # it has adapters for languages, and no default among them
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
}
_CAUSAL, _MASKED, _SEQ2SEQ = "AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM"
FAMILIES: tuple[Architecture, ...] = (
    *OBSERVED,
    *(
        Architecture(name, _MASKED)
        for name in ("fnet", "roberta-prelayernorm", "xlm-roberta-xl", "xmod", "yoso", "nomic_bert")
    ),
    *(
        Architecture(name, _CAUSAL, {"num_key_value_heads": 2, "head_dim": 8})
        for name in ("qwen3_moe", "olmo3", "cohere2", "exaone4", "ernie4_5", "glm4")
    ),
    *(Architecture(name, _CAUSAL) for name in ("bert-generation", "modernbert-decoder", "mamba", "rwkv")),
    Architecture("mamba2", _CAUSAL, {"num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 16}),
    *(
        Architecture(name, _SEQ2SEQ, {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2})
        for name in ("fsmt",)
    ),
)
KINDS = {_CAUSAL: Kind.CAUSAL, _MASKED: Kind.MASKED, _SEQ2SEQ: Kind.SEQ2SEQ}

TEXTS = (
    "red cats see old dogs near a house",
    "dogs run",
    "a small cat and the red dog sat on a mat in the old house",
)
_WORDS = sorted({word for text in TEXTS for word in text.split()})


def config_of(family: Architecture, **changes: Any) -> Any:
    """The default configuration of a family, made small."""
    default = transformers.AutoConfig.for_model(family.model_type)
    known = {*vars(default), *type(default).attribute_map}
    sizes = {**TINY, **family.sizes}
    sizes = {name: value for name, value in sizes.items() if name in known - _OPTIONS}
    if getattr(default, "vocab_size", None):
        sizes["vocab_size"] = min(default.vocab_size, _highest_special(default) + 64)
    return transformers.AutoConfig.for_model(
        family.model_type, **{**sizes, **_MORE.get(family.model_type, {}), **changes}
    )


def _highest_special(config: Any) -> int:
    """The largest id that a configuration gives a meaning of its own."""
    named = [value for name, value in vars(config).items() if name.endswith(("token_id", "_index"))]
    numbers = [n for value in named for n in (value if isinstance(value, list) else [value])]
    return max((n for n in numbers if isinstance(n, int)), default=0)


def build(config: Any, auto: str) -> Any:
    """A model with random weights (seed 0), large enough for attention to be uneven."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, auto).from_config(config).eval()
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, torch.nn.Linear | torch.nn.Embedding) and module.weight.requires_grad:
                    module.weight.normal_(std=0.2)
    return model


def tokenizer_for(config: Any, auto: str) -> Any:
    """One token a word, with the special ids of the configuration and no others, as far as it has them.

    Masked models get [CLS], [SEP] and [MASK] on free ids where the configuration names none; encoder-decoders end
    each source with the end token.
    """
    ids = {f"{name}_token": _token_id(config, name) for name in ("pad", "bos", "eos")}
    vocabulary: dict[str, int] = {}
    names = {}
    for name, number in ids.items():
        if number is not None:
            spelled = next((token for token, known in vocabulary.items() if known == number), f"<{name[:3]}>")
            vocabulary[spelled] = number
            names[name] = spelled
    free = iter(number for number in range(3, 40) if number not in vocabulary.values())
    wanted = ["<unk>", *(("<cls>", "<sep>", "<mask>") if auto == _MASKED else ()), *_WORDS]
    vocabulary |= {token: next(free) for token in wanted}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    template = {_MASKED: "<cls> $A <sep>", _SEQ2SEQ: f"$A {names.get('eos_token', '<unk>')}"}.get(auto)
    if template is not None:
        special = [(token, vocabulary[token]) for token in template.split() if token != "$A"]
        backend.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    if auto == _MASKED:
        names |= {"cls_token": "<cls>", "sep_token": "<sep>", "mask_token": "<mask>"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", **names)
    fast.model_input_names = ["input_ids", "attention_mask"]
    return fast


def _token_id(config: Any, name: str) -> int | None:
    found = getattr(config.get_text_config(), f"{name}_token_id", None)
    return found[0] if isinstance(found, list) else found


def loaded(model: Any, kind: Kind, tokenizer: Any) -> LoadedModel:
    """As :func:`workbench.load` would give it."""
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        kind=kind,
        name=model.config.model_type,
        revision=None,
        dtype=torch.float32,
        device=torch.device("cpu"),
        implementation="hf",
    )
