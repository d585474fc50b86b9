"""How a family's weights get our names: patterns, and a few weights that must be split or transposed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from workbench.errors import ModelError
from workbench.models.configuration import TransformerConfig
from workbench.models.encoder import TransformerEncoder
from workbench.models.heads.masked import TransformerEncoderForMaskedLM
from workbench.models.heads.sequence_classification import TransformerEncoderForSequenceClassification
from workbench.models.heads.token_classification import (
    TransformerEncoderForQuestionAnswering,
    TransformerEncoderForTokenClassification,
)

__all__ = [
    "GATED",
    "ModelFamily",
    "Renames",
    "Weights",
    "activation",
    "activation_name",
    "encoder_classes",
    "load_weights",
    "refuse",
    "special_ids",
]

Weights = dict[str, Tensor]
Split = Callable[[str, Tensor, Any], Weights]
Renames = tuple[tuple[str, str], ...]

# transformers' name of an activation -> ours
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "elu": "elu",
    "selu": "selu",
    "sigmoid": "sigmoid",
}

# our name of an activation -> that of the feed-forward layer gated by it
GATED = {"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh", "relu": "reglu", "sigmoid": "glu"}


def activation(name: str) -> str:
    """Our name of a transformers activation; ``ModelError`` if there is none."""
    if name not in _ACTIVATIONS:
        allowed = ", ".join(_ACTIVATIONS)
        raise ModelError(
            f"activation {name!r} has no built-in counterpart; known: {allowed}; use implementation='hf'"
        )
    return _ACTIVATIONS[name]


def activation_name(name: str) -> str:
    """Transformers' name of our activation; ``gelu`` where it has none."""
    return next((theirs for theirs, ours in _ACTIVATIONS.items() if ours == name), "gelu")


def encoder_classes(name: str, **others: type[PreTrainedModel]) -> dict[str, type[PreTrainedModel]]:
    """Our class for each of transformers' classes of an encoder family, by name; ``others`` beside the common heads."""
    heads: dict[str, type[PreTrainedModel]] = {
        "MaskedLM": TransformerEncoderForMaskedLM,
        "SequenceClassification": TransformerEncoderForSequenceClassification,
        "TokenClassification": TransformerEncoderForTokenClassification,
        "QuestionAnswering": TransformerEncoderForQuestionAnswering,
        **others,
    }
    return {
        f"{name}Model": TransformerEncoder,
        **{f"{name}For{head}": found for head, found in heads.items()},
    }


def special_ids(hf: Any) -> dict[str, Any]:
    """Ids of special tokens in a transformers configuration; ``None`` for those that its class does not even name."""
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    return {name: getattr(hf, name, None) for name in names}


def refuse(hf: Any, **allowed: Any) -> None:
    """Raise :class:`~workbench.errors.ModelError` unless a transformers configuration has these options."""
    for name, value in allowed.items():
        if (found := getattr(hf, name, value)) != value:
            raise ModelError(
                f"{hf.model_type} with {name} = {found!r} has no built-in counterpart; "
                f"allowed: {value!r}; use implementation='hf'"
            )


@dataclass(frozen=True, kw_only=True)
class ModelFamily:
    """One family of transformers models.

    ``classes``: transformers' class name to what makes ours. ``prefix``: where models with a head keep their
    body. ``body`` and ``head``: pairs of a pattern over the whole of a name and its replacement; the first
    match counts. ``splits``: patterns of weights that become several, or are turned. ``dropped``: weights that
    have no counterpart.
    """

    config: Callable[[Any, str], TransformerConfig]
    classes: Mapping[str, Callable[[Any], PreTrainedModel]]
    body: Renames
    prefix: str = ""
    head: Renames = ()
    splits: Mapping[str, Split] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()

    def translate(self, hf_model: Any, weights: Mapping[str, Tensor]) -> Weights:
        """Weights of ``hf_model`` (or their gradients) under our names.

        Raises :class:`~workbench.errors.ModelError` for a name without counterpart.
        """
        has_head = type(hf_model).__name__ in self.classes and bool(self.head_of(hf_model))
        translated: Weights = {}
        for name, weight in weights.items():
            if any(re.fullmatch(pattern, name) for pattern in self.dropped):
                continue
            split = next((s for pattern, s in self.splits.items() if re.fullmatch(pattern, name)), None)
            pieces = split(name, weight, hf_model.config) if split is not None else {name: weight}
            for piece, tensor in pieces.items():
                translated[self._rename(piece, has_head)] = tensor
        return translated

    @staticmethod
    def head_of(hf_model: Any) -> str:
        """What follows ``For`` in the class name, or ``LMHead``; empty for a body alone."""
        match = re.search(r"For\w+|LMHead", type(hf_model).__name__)
        return match.group() if match else ""

    def _rename(self, name: str, has_head: bool) -> str:
        inner = name.removeprefix(self.prefix + ".") if has_head else name
        if (renamed := _first_match(self.body, inner)) is not None:
            return f"model.{renamed}" if has_head else renamed
        if (renamed := _first_match(self.head, name)) is not None:
            return renamed
        raise ModelError(f"weight {name!r} has no built-in counterpart; use implementation='hf'")


def _first_match(renames: Renames, name: str) -> str | None:
    for pattern, replacement in renames:
        if match := re.fullmatch(pattern, name):
            return match.expand(replacement)
    return None


def load_weights(model: PreTrainedModel, weights: Weights) -> None:
    """Copy weights into ``model``; every one must find its place, and every place be filled."""
    own = model.state_dict(keep_vars=True)
    filled = {id(own[name]) for name in weights if name in own}
    missing = [name for name, tensor in own.items() if id(tensor) not in filled]
    unexpected = [name for name in weights if name not in own]
    if missing or unexpected:
        raise ModelError(
            f"the built-in model lacks weights for {missing[:3]} and has no place for {unexpected[:3]}; "
            "use implementation='hf'"
        )
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)
