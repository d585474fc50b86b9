"""What built-in models read and return: token vectors, what is kept of a pass, and losses that training adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers import PreTrainedConfig
from transformers.modeling_outputs import (
    BaseModelOutputWithPastAndCrossAttentions,
    BaseModelOutputWithPooling,
    CausalLMOutputWithCrossAttentions,
    MaskedLMOutput,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.utils.generic import ModelOutput

from workbench.errors import ConfigError
from workbench.nn.experts import Routing

__all__ = [
    "CausalOutput",
    "EncoderDecoderOutput",
    "EncoderOutput",
    "MaskedOutput",
    "PreTrainingOutput",
    "Seq2SeqOutput",
    "StackOutput",
    "kept",
    "pick_vectors",
]


@dataclass
class StackOutput(BaseModelOutputWithPastAndCrossAttentions):
    """``auxiliary_loss`` is added to the loss in training, and ``None`` in evaluation; ``routings`` are of mixtures,
    ``steps`` (B, T) of layers that halt."""

    auxiliary_loss: Tensor | None = None
    routings: tuple[Routing, ...] | None = None
    steps: Tensor | None = None


@dataclass
class EncoderOutput(BaseModelOutputWithPooling):
    """Of an encoder: see :class:`StackOutput`."""

    auxiliary_loss: Tensor | None = None
    routings: tuple[Routing, ...] | None = None
    steps: Tensor | None = None


@dataclass
class EncoderDecoderOutput(Seq2SeqModelOutput):
    """The auxiliary losses of both sides, summed."""

    auxiliary_loss: Tensor | None = None


@dataclass
class CausalOutput(CausalLMOutputWithCrossAttentions):
    """``loss`` has the auxiliary loss in it, in training."""

    auxiliary_loss: Tensor | None = None


@dataclass
class MaskedOutput(MaskedLMOutput):
    """``loss`` has the auxiliary loss in it, in training."""

    auxiliary_loss: Tensor | None = None


@dataclass
class Seq2SeqOutput(Seq2SeqLMOutput):
    """``loss`` has the auxiliary loss in it, in training."""

    auxiliary_loss: Tensor | None = None


@dataclass
class PreTrainingOutput(ModelOutput):
    """Loss, ``prediction_logits`` (B, T, V), ``seq_relationship_logits`` (B, 2), states and attentions."""

    loss: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    auxiliary_loss: Tensor | None = None


def pick_vectors(table: Callable[[Tensor], Tensor], ids: Tensor | None, vectors: Tensor | None) -> Tensor:
    """Token vectors (B, T, E), looked up in ``table`` unless the caller gives them; exactly one must be given."""
    if ids is not None and vectors is None:
        return table(ids)
    if ids is None and vectors is not None:
        return vectors
    raise ConfigError("give exactly one of input_ids and inputs_embeds; allowed: one, and the other none")


def kept(config: PreTrainedConfig, hidden: bool | None, attentions: bool | None) -> tuple[Any, Any]:
    """Whether hidden states and attentions are kept: as the caller says, by default as configured."""
    hidden = config.output_hidden_states if hidden is None else hidden
    return hidden, config.output_attentions if attentions is None else attentions
