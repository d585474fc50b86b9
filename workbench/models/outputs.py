"""transformers' outputs with what some built-in models add to their loss in training."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from transformers.modeling_outputs import (
    BaseModelOutputWithPastAndCrossAttentions,
    BaseModelOutputWithPooling,
    CausalLMOutputWithCrossAttentions,
    MaskedLMOutput,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.utils.generic import ModelOutput

from workbench.nn.experts import Routing

__all__ = [
    "CausalOutput",
    "EncoderDecoderOutput",
    "EncoderOutput",
    "MaskedOutput",
    "PreTrainingOutput",
    "Seq2SeqOutput",
    "StackOutput",
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
