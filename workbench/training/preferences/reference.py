"""The model that a policy is held to, and what the policy's log-probabilities against it say of held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from workbench.errors import ModelError
from workbench.models import load_tokenizer
from workbench.training._arguments import find_precision
from workbench.training.finetuning.heads import load_with_head
from workbench.training.finetuning.tasks import AnswerKind, FineTask
from workbench.training.preferences.encoding import EncodedPair, reply_log_probs
from workbench.training.preferences.job import Job, Measured, Subject
from workbench.training.preferences.results import measured_pairs

__all__ = ["LANGUAGE", "Reference", "measured_policy"]

LANGUAGE = FineTask("preferences", AnswerKind.RESPONSE, "prompt", "response", metric="accuracy")
"""The task of a language model, for its loading."""


@dataclass(frozen=True)
class Reference:
    """A model whose log-probabilities are counted in ``dtype``, ``rows`` sequences at a time."""

    model: Any
    pad: int
    rows: int
    dtype: torch.dtype

    @classmethod
    def of(cls, job: Job, subject: Subject) -> Reference:
        """The model named in the job, else the policy before training.

        Raises :class:`~workbench.errors.ModelError` for one that has another tokenizer.
        """
        dtype = find_precision(job.settings.precision, job.device)
        if job.reference is None:
            return cls(subject.model, subject.pad, subject.rows, dtype)
        if load_tokenizer(job.reference).get_vocab() != subject.tokenizer.get_vocab():
            raise ModelError(
                f"the reference {job.reference} has another tokenizer than {job.name}, so their log-probabilities are "
                "of other tokens; choose a reference with the same vocabulary"
            )
        model = load_with_head(job.reference, LANGUAGE).model.to(job.device)
        return cls(model, subject.pad, subject.rows, dtype)

    def of_pairs(self, pairs: Sequence[EncodedPair]) -> tuple[list[float], list[float]]:
        """Log-probabilities, in nats, of the chosen and of the rejected replies."""
        return self.of_replies([(p.prompt, p.chosen) for p in pairs]), self.of_replies(
            [(p.prompt, p.rejected) for p in pairs]
        )

    def of_replies(self, sequences: Sequence[tuple[list[int], list[int]]]) -> list[float]:
        """Log-probabilities, in nats, of replies after their prompts."""
        return reply_log_probs(self.model, sequences, self.pad, self.rows, self.dtype)


def measured_policy(
    job: Job,
    subject: Subject,
    pairs: Sequence[EncodedPair],
    before: tuple[list[float], list[float]],
    notes: dict[str, Any],
    model: Any,
) -> Measured:
    """Held-out results by the implicit reward, β times the log-ratio of policy to reference (Rafailov et al. 2023).

    ``before`` are the reference's log-probabilities of the chosen and the rejected replies.
    """
    dtype = find_precision(job.settings.precision, job.device)
    after = Reference(model, subject.pad, subject.rows, dtype).of_pairs(pairs)
    beta = job.settings.beta
    scores = [
        [beta * (a - b) for a, b in zip(new, old, strict=True)]
        for new, old in zip(after, before, strict=True)
    ]
    found = measured_pairs([pair.pair for pair in pairs], *scores)
    return replace(found, notes={**found.notes, **notes})
