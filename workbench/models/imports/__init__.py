"""Weights of published families in the built-in models; one file a family."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from transformers import PreTrainedModel

from workbench.errors import ModelError
from workbench.models.base import TransformerPreTrainedModel
from workbench.models.imports.mapping import ModelFamily, load_weights

__all__ = ["FAMILIES", "ModelFamily", "family_of", "to_builtin"]

# transformers' model type -> module here with ``FAMILY``, or a family from elsewhere
FAMILIES: dict[str, str | ModelFamily] = {
    "albert": "albert",
    "bart": "bart",
    "bert": "bert",
    "bloom": "bloom",
    "distilbert": "distilbert",
    "electra": "electra",
    "gpt2": "gpt2",
    "llama": "llama",
    "mistral": "llama",
    "roberta": "roberta",
    "t5": "t5",
}


def family_of(model_type: str) -> ModelFamily:
    """The family of a transformers model type; raises :class:`~workbench.errors.ModelError` if unknown."""
    if model_type not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise ModelError(
            f"no built-in counterpart of model type {model_type!r}; known: {known}; use implementation='hf'"
        )
    found = FAMILIES[model_type]
    family = import_module(f"workbench.models.imports.{found}").FAMILY if isinstance(found, str) else found
    assert isinstance(family, ModelFamily)
    return family


def to_builtin(hf_model: Any) -> PreTrainedModel:
    """The same model in our code: weights, dtype, device, mode, labels and generation settings carried over.

    Raises :class:`~workbench.errors.ModelError` where the family, the class, or an option has no counterpart.
    """
    if isinstance(hf_model, TransformerPreTrainedModel):
        return hf_model
    family = family_of(hf_model.config.model_type)
    name = type(hf_model).__name__
    if name not in family.classes:
        known = ", ".join(family.classes)
        raise ModelError(f"no built-in counterpart of {name}; known: {known}; use implementation='hf'")
    config = family.config(hf_model.config, name)
    config.tie_word_embeddings = _is_tied(hf_model)
    config.id2label, config.label2id = hf_model.config.id2label, hf_model.config.label2id
    config.problem_type = hf_model.config.problem_type
    config._attn_implementation = hf_model.config._attn_implementation
    config.name_or_path = hf_model.config.name_or_path
    model = family.classes[name](config)
    model.to(hf_model.device, hf_model.dtype)
    load_weights(model, family.translate(hf_model, hf_model.state_dict()))
    if hf_model.can_generate():
        model.generation_config = hf_model.generation_config
    return model.train(hf_model.training)


def _is_tied(hf_model: Any) -> bool:
    output = hf_model.get_output_embeddings()
    if output is None:
        return bool(hf_model.config.tie_word_embeddings)
    tied: torch.Tensor = hf_model.get_input_embeddings().weight
    return output.weight is tied
