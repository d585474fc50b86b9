"""Which head a model has, from its configuration and the weights that are really there."""

from __future__ import annotations

from typing import Any

from workbench.models._loaded import Kind

__all__ = ["auto_classes"]

# Ending of the architecture's class name -> (kind, Auto class that builds it)
_ENDINGS = (
    ("ForCausalLM", Kind.CAUSAL, "AutoModelForCausalLM"),
    ("LMHeadModel", Kind.CAUSAL, "AutoModelForCausalLM"),
    ("ForMaskedLM", Kind.MASKED, "AutoModelForMaskedLM"),
    ("ForPreTraining", Kind.MASKED, "AutoModelForMaskedLM"),
    ("ForConditionalGeneration", Kind.SEQ2SEQ, "AutoModelForSeq2SeqLM"),
    ("ForSequenceClassification", Kind.CLASSIFIER, "AutoModelForSequenceClassification"),
    ("ForTokenClassification", Kind.CLASSIFIER, "AutoModelForTokenClassification"),
    ("ForQuestionAnswering", Kind.CLASSIFIER, "AutoModelForQuestionAnswering"),
    ("ForMultipleChoice", Kind.CLASSIFIER, "AutoModelForMultipleChoice"),
)


def auto_classes(config: Any) -> list[tuple[Kind, str]]:
    """Auto classes to try in order; the first whose weights are all in the checkpoint is the model's kind."""
    architecture = (config.architectures or [""])[0]
    named = [(kind, auto) for ending, kind, auto in _ENDINGS if architecture.endswith(ending)]
    if named:
        return [*named, (Kind.ENCODER, "AutoModel")]
    return [*_possible_heads(config), (Kind.ENCODER, "AutoModel")]


def _possible_heads(config: Any) -> list[tuple[Kind, str]]:
    """Language-model heads that the model type could have when the checkpoint does not name one."""
    from transformers.models.auto import modeling_auto as auto

    if config.is_encoder_decoder:
        return [(Kind.SEQ2SEQ, "AutoModelForSeq2SeqLM")]
    if config.model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return [(Kind.MASKED, "AutoModelForMaskedLM")]
    if config.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return [(Kind.CAUSAL, "AutoModelForCausalLM")]
    return []
