"""Distillation: a student learns to give its teacher's probabilities, states and attention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.errors import ConfigError
from workbench.training.objectives._draw import IGNORED, Term, token_places, token_term, weighted_loss

__all__ = [
    "DistillationWeights",
    "Distilled",
    "attention_losses",
    "hidden_state_losses",
    "soft_target_losses",
]


def soft_target_losses(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T² KL(teacher ‖ student) of softened distributions: logits (..., V) to (...).

    Hinton et al. 2015, "Distilling the Knowledge in a Neural Network", section 2.
    """
    log_student = F.log_softmax(student.float() / temperature, dim=-1)
    log_teacher = F.log_softmax(teacher.float() / temperature, dim=-1)
    return temperature**2 * F.kl_div(log_student, log_teacher, reduction="none", log_target=True).sum(-1)


def hidden_state_losses(student: Tensor, teacher: Tensor) -> Tensor:
    """1 - cosine of states: (..., D) to (...); Sanh et al. 2019, "DistilBERT"."""
    return 1 - F.cosine_similarity(student.float(), teacher.float(), dim=-1)


def attention_losses(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher ‖ student) of attention (B, H, Q, K), mean over heads: (B, Q).

    Wang et al. 2020, "MiniLM", for the last layers of both, without their second term, the relations of values. Student
    and teacher need as many heads.
    """
    log_student, log_teacher = (a.float().clamp(min=1e-12).log() for a in (student, teacher))
    return (teacher.float() * (log_teacher - log_student)).sum(-1).mean(1)


@dataclass(frozen=True)
class DistillationWeights:
    """How much each term counts; 0 leaves it out. The first three are DistilBERT's, with the weights of its release.

    Its soft targets are taken at every token, these at the tokens that the task predicts.
    """

    soft_targets: float = 5.0
    task: float = 2.0
    hidden: float = 1.0
    attention: float = 0.0


class Distilled(nn.Module):
    """A student and its frozen teacher as one model to train; what is saved is the student.

    Raises :class:`~workbench.errors.ConfigError` if their vocabularies, or what is to be matched, differ in size.
    """

    def __init__(
        self,
        student: Any,
        teacher: Any,
        *,
        temperature: float = 2.0,
        weights: DistillationWeights | None = None,
    ) -> None:
        super().__init__()
        self.weights = weights or DistillationWeights()
        same_width = student.config.hidden_size == teacher.config.hidden_size
        if student.config.vocab_size != teacher.config.vocab_size:
            raise ConfigError(
                f"student and teacher have {student.config.vocab_size} and {teacher.config.vocab_size} ids; "
                "train the student with the teacher's tokenizer"
            )
        if (
            self.weights.attention
            and student.config.num_attention_heads != teacher.config.num_attention_heads
        ):
            raise ConfigError("attention can be matched only between models of as many heads")
        self.student, self.teacher = student, teacher.eval().requires_grad_(False)
        self.temperature = temperature
        self._shifted = type(student).__name__.endswith(("ForCausalLM", "LMHeadModel"))
        self.matches_hidden = bool(self.weights.hidden) and same_width
        self.config = student.config
        if self.weights.attention:
            for model in (student, teacher):
                model.set_attn_implementation("eager")  # the fused kernel gives no weights

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return next(self.student.parameters()).device

    def train(self, mode: bool = True) -> Distilled:
        """The student's mode; the teacher stays in evaluation."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        """The student's output; its ``loss`` is the weighted sum of the terms' means, each over its scored places.

        ``num_items_in_batch`` are the places of all batches of a step, as :meth:`scored_counts` gives them.
        """
        output, terms = self._output_and_terms(input_ids, labels, attention_mask, position_ids)
        output.loss = weighted_loss(terms, num_items_in_batch, getattr(output, "auxiliary_loss", None))
        return output

    def scored_counts(
        self,
        input_ids: Tensor,
        labels: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """Scored places of each term of a batch, (term,)."""
        scored, read = self._places(input_ids, labels, attention_mask)
        further = [self.matches_hidden, bool(self.weights.attention)]
        return torch.stack([scored.sum(), scored.sum(), *(read.sum() for wanted in further if wanted)])

    def _places(
        self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Places whose logits are judged, and all that are read: (B, T)."""
        return _scored(labels, shifted=self._shifted), token_places(input_ids, attention_mask)

    def terms(
        self,
        input_ids: Tensor,
        labels: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> list[Term]:
        """The student's own task, and how far it is from its teacher in each respect."""
        return self._output_and_terms(input_ids, labels, attention_mask, position_ids)[1]

    def _output_and_terms(
        self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None
    ) -> tuple[Any, list[Term]]:
        asked = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "output_hidden_states": self.matches_hidden,
            "output_attentions": bool(self.weights.attention),
        }
        output = self.student(**asked)
        with torch.no_grad():
            target = self.teacher(**asked)
        weights, (scored, read) = self.weights, self._places(input_ids, labels, attention_mask)
        soft = torch.zeros(scored.shape, device=scored.device)
        soft[scored] = soft_target_losses(output.logits[scored], target.logits[scored], self.temperature)
        terms = [
            token_term(output.logits, labels, name="task", weight=weights.task, shifted=self._shifted),
            Term("soft_targets", weights.soft_targets, soft, scored),
        ]
        if self.matches_hidden:
            states = (o.hidden_states[-1] for o in (output, target))
            terms.append(Term("hidden", weights.hidden, hidden_state_losses(*states), read))
        if weights.attention:
            losses = attention_losses(output.attentions[-1], target.attentions[-1])
            terms.append(Term("attention", weights.attention, losses, read))
        return output, terms

    def save_pretrained(self, folder: str | Path) -> None:
        """Only the student."""
        self.student.save_pretrained(folder)


def _scored(labels: Tensor, *, shifted: bool) -> Tensor:
    """Places whose logits are judged: those with a label, or before one for a causal model."""
    if not shifted:
        return labels != IGNORED
    return F.pad(labels[:, 1:] != IGNORED, (0, 1), value=False)
