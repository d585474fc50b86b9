"""Which head a model has, from its configuration and the weights that are there; sparse attention that stays on."""

from __future__ import annotations

from typing import Any

from torch import nn

from workbench.models._loaded import Kind

__all__ = ["auto_classes", "keep_sparse_attention", "kind_of"]

# Ending of the architecture's class name -> (kind, Auto class that builds it)
_ENDINGS = (
    ("ForCausalLM", Kind.CAUSAL, "AutoModelForCausalLM"),
    ("LMHeadModel", Kind.CAUSAL, "AutoModelForCausalLM"),
    ("ForMaskedLM", Kind.MASKED, "AutoModelForMaskedLM"),
    ("ElectraForPreTraining", Kind.DETECTOR, "AutoModelForReplacedTokenDetection"),
    ("ForReplacedTokenDetection", Kind.DETECTOR, "AutoModelForReplacedTokenDetection"),
    ("ForPreTraining", Kind.MASKED, "AutoModelForMaskedLM"),
    ("ForConditionalGeneration", Kind.SEQ2SEQ, "AutoModelForSeq2SeqLM"),
    ("ForSequenceClassification", Kind.CLASSIFIER, "AutoModelForSequenceClassification"),
    ("ForTokenClassification", Kind.CLASSIFIER, "AutoModelForTokenClassification"),
    ("ForQuestionAnswering", Kind.CLASSIFIER, "AutoModelForQuestionAnswering"),
    ("ForMultipleChoice", Kind.CLASSIFIER, "AutoModelForMultipleChoice"),
)


# Auto class -> transformers' table of what it builds; built-in models are registered there too.
_TABLES = {
    "AutoModelForCausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "AutoModelForMaskedLM": "MODEL_FOR_MASKED_LM_MAPPING",
}


def auto_classes(config: Any) -> list[tuple[Kind, str]]:
    """Auto classes to try in order; the first whose weights are all in the checkpoint is the model's kind.

    A head named causal may sit on a body that sees both sides (XLM, BERT without ``is_decoder``): where the model
    type can fill masks, that is tried next.
    """
    architecture = (config.architectures or [""])[0]
    named = [(kind, auto) for ending, kind, auto in _ENDINGS if architecture.endswith(ending)]
    if named and named[0][0] is Kind.CAUSAL:
        named = [pair for pair in (*named, (Kind.MASKED, "AutoModelForMaskedLM")) if _builds(pair[1], config)]
    if (
        not named and "For" not in architecture
    ):  # a head of another kind is none of these, whatever weights are there
        named = _possible_heads(config)
    return [*named, (Kind.ENCODER, "AutoModel")]


def kind_of(architecture: str) -> Kind:
    """The kind that the name of a model's class says; an encoder where it names no head."""
    return next((kind for ending, kind, _ in _ENDINGS if architecture.endswith(ending)), Kind.ENCODER)


def _possible_heads(config: Any) -> list[tuple[Kind, str]]:
    """Language-model heads that the model type could have when the checkpoint does not name a head."""
    if config.is_encoder_decoder:
        return [(Kind.SEQ2SEQ, "AutoModelForSeq2SeqLM")]
    possible = [(Kind.MASKED, "AutoModelForMaskedLM"), (Kind.CAUSAL, "AutoModelForCausalLM")]
    return [(kind, auto) for kind, auto in possible if _builds(auto, config)][:1]


def _builds(auto: str, config: Any) -> bool:
    """Whether the Auto class has a model for this type of configuration."""
    import transformers

    return type(config) in getattr(transformers, _TABLES[auto])


def keep_sparse_attention(model: nn.Module) -> None:
    """Let no text change how ``model`` reads the texts after it; nothing happens to models that do not switch.

    transformers' BigBird reads texts that its blocks would cover anyway with full attention, and keeps that.
    Where the configuration says "block_sparse", this is restored before each longer text, so that results do not
    depend on the order of texts. Call this before the model's first pass.
    """
    for module in model.modules():
        whole_text = hasattr(getattr(module, "config", None), "num_random_blocks") and hasattr(
            module, "get_input_embeddings"
        )
        if whole_text and getattr(module, "attention_type", None) == "block_sparse":
            module.register_forward_pre_hook(_restore, with_kwargs=True)


def _restore(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    given = (named.get("input_ids"), named.get("inputs_embeds"), *arguments[:1])
    read = next((tensor for tensor in given if tensor is not None), None)  # (B, T) or (B, T, D)
    if read is None:
        return
    blocks = (
        5 + 2 * module.config.num_random_blocks
    )  # as in transformers: no more is read with full attention
    if read.shape[1] > blocks * module.config.block_size:
        module.set_attention_type("block_sparse")
