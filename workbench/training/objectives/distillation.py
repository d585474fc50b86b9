"""Distillation: a student learns to give its teacher's probabilities, states and attention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.errors import ConfigError
from workbench.training.objectives._draw import IGNORED

__all__ = ["DistillationWeights", "Distilled", "attention_loss", "hidden_state_loss", "soft_target_loss"]


def soft_target_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T² KL(teacher ‖ student) of softened distributions, logits (N, V), mean over N.

    Hinton et al. 2015, "Distilling the Knowledge in a Neural Network", section 2.
    """
    log_student = F.log_softmax(student.float() / temperature, dim=-1)
    log_teacher = F.log_softmax(teacher.float() / temperature, dim=-1)
    return temperature**2 * F.kl_div(log_student, log_teacher, reduction="batchmean", log_target=True)


def hidden_state_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """1 - cosine of states (N, D), mean; Sanh et al. 2019, "DistilBERT", section 3."""
    return (1 - F.cosine_similarity(student.float(), teacher.float(), dim=-1)).mean()


def attention_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher ‖ student) of attention (B, H, Q, K), mean over heads and queries.

    Wang et al. 2020, "MiniLM", equation 6, for the last layers of both. Student and teacher need as many heads.
    """
    log_student, log_teacher = (a.float().clamp(min=1e-12).log() for a in (student, teacher))
    return (teacher.float() * (log_teacher - log_student)).sum(-1).mean()


@dataclass(frozen=True)
class DistillationWeights:
    """How much each term counts; 0 leaves it out. DistilBERT's terms are the first three."""

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
    ) -> Any:
        """The student's output; its ``loss`` is the weighted sum of the terms, over scored places."""
        asked = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "output_hidden_states": self.matches_hidden,
            "output_attentions": bool(self.weights.attention),
        }
        output = self.student(labels=labels, **asked)
        with torch.no_grad():
            target = self.teacher(**asked)
        scored = _scored(labels, shifted=type(self.student).__name__.endswith(("ForCausalLM", "LMHeadModel")))
        loss = self.weights.task * output.loss + self.weights.soft_targets * soft_target_loss(
            output.logits[scored], target.logits[scored], self.temperature
        )
        if self.matches_hidden:
            read = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            states = (o.hidden_states[-1][read != 0] for o in (output, target))
            loss = loss + self.weights.hidden * hidden_state_loss(*states)
        if self.weights.attention:
            loss = loss + self.weights.attention * attention_loss(
                output.attentions[-1], target.attentions[-1]
            )
        output.loss = loss
        return output

    def save_pretrained(self, folder: str | Path) -> None:
        """Only the student."""
        self.student.save_pretrained(folder)


def _scored(labels: Tensor, *, shifted: bool) -> Tensor:
    """Places whose logits are judged: those with a label, or before one for a causal model."""
    if not shifted:
        return labels != IGNORED
    return F.pad(labels[:, 1:] != IGNORED, (0, 1), value=False)
