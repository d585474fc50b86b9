"""Which route the attention of each architecture family takes: examined on tiny random models.

``python -m workbench.trace.architectures`` prints docs/architectures.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from workbench.terminal import say
from workbench.trace.attention_hook import AttentionCall, Session, Stack, Watcher, attention_implementation
from workbench.trace.observing import session_on
from workbench.trace.structure import Route, call_model, sample_inputs, structure_of

__all__ = [
    "FAMILIES",
    "TINY",
    "Architecture",
    "ArchitectureExamination",
    "build_tiny",
    "examine",
    "to_markdown",
]

# Sizes that most configurations share; a family names only what differs.
TINY: Mapping[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ENCODER_DECODER: Mapping[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_start_token_id": 2,
}
_T5: Mapping[str, Any] = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_GROUPED: Mapping[str, Any] = {"num_key_value_heads": 2, "head_dim": 8}
_SQUEEZED = ("q", "k", "v", "post_attention", "intermediate", "output")
_GPT2: Mapping[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}


@dataclass(frozen=True)
class Architecture:
    """An architecture by its transformers model type, and how to build it tiny."""

    model_type: str
    auto: str  # the Auto class that builds it
    sizes: Mapping[str, Any] = field(default_factory=dict)


def _many(auto: str, *model_types: str, **sizes: Any) -> tuple[Architecture, ...]:
    return tuple(Architecture(model_type, auto, sizes) for model_type in model_types)


_MASKED, _CAUSAL, _SEQ2SEQ = "AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM"

FAMILIES: tuple[Architecture, ...] = (
    *_many(
        _MASKED, "bert", "roberta", "xlm-roberta", "camembert", "electra", "albert", "ernie", "megatron-bert"
    ),
    *_many(_MASKED, "mpnet", "layoutlm", "roformer", "rembert", "convbert", "ibert", "esm", "data2vec-text"),
    *_many(_MASKED, "deberta", "deberta-v2", "big_bird", "nystromformer", "luke", "modernbert"),
    *_many(_MASKED, "eurobert", num_key_value_heads=4),
    *_many(_MASKED, "distilbert", dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    *_many(_MASKED, "longformer", attention_window=8),
    *_many(_MASKED, "mobilebert", true_hidden_size=16, intra_bottleneck_size=16, embedding_size=16),
    *_many(_MASKED, "squeezebert", embedding_size=32, **{f"{p}_groups": 1 for p in _SQUEEZED}),
    *_many(_MASKED, "funnel", d_model=32, n_head=4, d_head=8, d_inner=48, block_sizes=[1, 1]),
    *_many(_MASKED, "xlm", "flaubert", emb_dim=32, n_layers=2, n_heads=4),
    *_many(_CAUSAL, "xlnet", d_model=32, n_layer=2, n_head=4, d_inner=48),
    *_many(_CAUSAL, "gpt2", "gpt_bigcode", "gptj", "codegen", "ctrl", **_GPT2, rotary_dim=4, dff=48),
    *_many(_CAUSAL, "openai-gpt", **_GPT2),
    *_many(
        _CAUSAL,
        "gpt_neo",
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
    ),
    *_many(
        _CAUSAL,
        "gpt_neox",
        "gpt_neox_japanese",
        "biogpt",
        "xglm",
        d_model=32,
        num_layers=2,
        attention_heads=4,
    ),
    *_many(_CAUSAL, "opt", ffn_dim=48, word_embed_proj_dim=32),
    *_many(_CAUSAL, "bloom", "falcon", n_layer=2, n_head=4),
    *_many(_CAUSAL, "mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=64),
    *_many(
        _CAUSAL, "llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3", "phi3", "olmo", "olmo2", **_GROUPED
    ),
    *_many(_CAUSAL, "cohere", "granite", "glm", "helium", "smollm3", "starcoder2", "nemotron", **_GROUPED),
    *_many(_CAUSAL, "phi", "stablelm", "persimmon", num_key_value_heads=4),
    *_many(_CAUSAL, "gemma3_text", sliding_window=4, **_GROUPED),
    *_many(_CAUSAL, "mixtral", "gpt_oss", num_local_experts=2, num_experts_per_tok=1, **_GROUPED),
    *_many(_CAUSAL, "qwen2_moe", num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16, **_GROUPED),
    *_many(_SEQ2SEQ, "t5", "mt5", "umt5", "longt5", **_T5),
    *_many(
        _SEQ2SEQ,
        "switch_transformers",
        num_experts=2,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        **_T5,
    ),
    *_many(
        _SEQ2SEQ, "bart", "mbart", "pegasus", "marian", "blenderbot", "blenderbot-small", **_ENCODER_DECODER
    ),
    *_many(_SEQ2SEQ, "m2m_100", "plbart", "mvp", "pegasus_x", "bigbird_pegasus", **_ENCODER_DECODER),
    *_many(_SEQ2SEQ, "led", attention_window=8, max_encoder_position_embeddings=64, **_ENCODER_DECODER),
    *_many(_SEQ2SEQ, "prophetnet", num_encoder_layers=2, num_decoder_layers=3, **_ENCODER_DECODER),
)


@dataclass(frozen=True)
class ArchitectureExamination:
    """What running one tiny model showed. ``kernel_difference`` is the largest change against eager."""

    family: Architecture
    class_name: str
    route: Route
    stacks: Mapping[Stack, tuple[int, int]]  # layers and heads
    row_sum_error: float  # largest |sum of a row - 1| over all layers
    looks_ahead: bool  # in the main stack's self-attention
    kernel_difference: float


class _RowSums(Watcher):
    """Sums of rows and direction of every layer."""

    def __init__(self) -> None:
        self.error = 0.0
        self.ahead: dict[Stack, bool] = {}

    def on_weights(self, call: AttentionCall) -> Tensor:
        """Look at the weights."""
        self.error = max(self.error, float((call.weights.sum(-1) - 1).abs().max()))
        ahead = bool(call.weights.triu(1).abs().max() > 0)
        self.ahead[call.stack] = self.ahead.get(call.stack, False) or ahead
        return call.weights


def build_tiny(family: Architecture) -> Any:
    """A small model of the family with random weights (seed 0)."""
    import transformers

    config = transformers.AutoConfig.for_model(family.model_type)
    for name, value in {**TINY, **family.sizes}.items():
        if name in vars(config) or name in type(config).attribute_map:
            setattr(config, name, value)
    if hasattr(config, "layer_types"):
        config.layer_types = (config.layer_types or ["full_attention"])[:2]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(transformers, family.auto).from_config(config).eval()


def examine(family: Architecture) -> ArchitectureExamination:
    """Build the family tiny, watch one pass, and compare its output with the model's own eager attention."""
    model = build_tiny(family)
    structure = structure_of(model)
    look = _RowSums()
    inputs = sample_inputs(model)
    with session_on(model, Session(structure.sites, (look,))):
        watched = call_model(model, **inputs)
    with attention_implementation(model, "eager"):
        plain = call_model(model, **inputs)
    return ArchitectureExamination(
        family=family,
        class_name=type(model).__name__,
        route=structure.route,
        stacks={stack: (structure.layers[stack], structure.heads[stack]) for stack in structure.layers},
        row_sum_error=look.error,
        looks_ahead=look.ahead.get(structure.main, False),
        kernel_difference=float((watched.logits - plain.logits).abs().max()),
    )


def to_markdown(examinations: list[ArchitectureExamination]) -> str:
    """The page docs/architectures.md."""
    lines = [
        "# Architectures",
        "",
        "How attention is observed in each family, examined on a tiny model with random weights built from",
        "its configuration (`python -m workbench.trace.architectures > docs/architectures.md`).",
        "",
        "Route *attention interface*: streaming, interventions, queries and keys. Route *output_attentions*:",
        "the weights come from the model's own outputs; feed-forward and residual can still be changed. A stack",
        "that is missing gives no weights (sparse encoders of some encoder-decoders). Rows that do not sum to one:",
        "gpt_oss has a learned sink without a key; squeezebert and prophetnet return scores, which traces refuse.",
        "XLNet sees the whole text although its class is a language model's: it is read as an encoder, and scored",
        "from left to right by its query stream; `workbench.trace.two_streams` has the maps of both streams.",
        "",
        "Of the built-in models, the recurrent encoder-decoders (presets `bahdanau`, `luong`) give their alignment in",
        "their outputs, one head in one layer; the convolutional one (`convs2s`) attends through the interface, one",
        "head in each decoder layer. Neither has self-attention; what needs it is refused. States of a recurrent",
        "decoder can be probed, not read by a lens or exchanged: each depends on the one before. ELMo (`elmo`) and",
        "skip-gram (`skip-gram`) have no attention: their hidden states are traced and probed, ELMo's layer by layer,",
        "skip-gram's vectors as a static baseline; what needs attention or a score of a text is refused.",
        "",
        "| model type | class | route | layers × heads | looks ahead | rows sum to 1 |",
        "|---|---|---|---|---|---|",
    ]
    for one in examinations:
        stacks = ", ".join(f"{stack} {layers} × {heads}" for stack, (layers, heads) in one.stacks.items())
        sums = "yes" if one.row_sum_error < 1e-5 else f"no (off by up to {one.row_sum_error:.2g})"
        ahead = "yes" if one.looks_ahead else "no"
        lines.append(
            f"| {one.family.model_type} | {one.class_name} | {one.route} | {stacks} | {ahead} | {sums} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    say(to_markdown([examine(family) for family in FAMILIES]), end="")
