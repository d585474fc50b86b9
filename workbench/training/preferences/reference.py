"""The model that a policy is held to, and what the policy's log-probabilities against it say of held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers

from workbench.data.rows import Preference
from workbench.errors import ModelError
from workbench.models import load_tokenizer, wrap
from workbench.models.loading import locate
from workbench.models.measured import looks_ahead
from workbench.pretrained import from_pretrained
from workbench.scoring import Engine
from workbench.scoring import Sequence as Scored
from workbench.training._arguments import find_precision
from workbench.training.finetuning.heads import Headed, load_with_head
from workbench.training.finetuning.tasks import AnswerKind, FineTask
from workbench.training.preferences.encoding import EncodedRow, Sequences
from workbench.training.preferences.job import AlignJob, Measured, Subject
from workbench.training.preferences.results import measured_pairs

__all__ = ["LANGUAGE", "REWARD", "ReferencePolicy", "load_policy", "measured_policy", "reference_of"]

LANGUAGE = FineTask("preferences", AnswerKind.RESPONSE, "prompt", "response", metric="accuracy")
"""The task of a language model, for its loading."""

REWARD = FineTask("preferences", AnswerKind.NUMBER, "prompt", "response", metric="accuracy")
"""The task of a reward model, for its loading: one number a text."""


def load_policy(name: str, method: str) -> Headed:
    """The model to train by ``method``; raises :class:`~workbench.errors.ModelError` if it goes on with no text."""
    load_tokenizer(name)  # the Auto classes learn the built-in models
    config = from_pretrained(transformers.AutoConfig, locate(name))
    kind = "an encoder-decoder" if config.is_encoder_decoder else "no language model from left to right"
    refused = ModelError(
        f"method {method} trains models that go on with a text, and {name} is {kind}; choose a causal model, such as "
        "novels-decoder, or train a reward model of it by --method reward"
    )
    if config.is_encoder_decoder or type(config) not in transformers.AutoModelForCausalLM._model_mapping:
        raise refused
    headed = load_with_head(name, LANGUAGE)
    if headed.fresh or looks_ahead(headed.model):
        raise refused
    return headed


@dataclass(frozen=True)
class ReferencePolicy:
    """A model whose log-probabilities are computed in ``dtype``, as in training."""

    model: Any
    tokenizer: Any
    dtype: torch.dtype

    @classmethod
    def of(cls, job: AlignJob, subject: Subject) -> ReferencePolicy:
        """The model named in the job, else the policy before training; raises as :func:`reference_of`."""
        dtype = find_precision(job.settings.precision, job.device)
        model = subject.model if job.reference is None else reference_of(job, subject)
        return cls(model, subject.tokenizer, dtype)

    def of_pairs(self, pairs: Sequence[EncodedRow[Preference]]) -> tuple[list[float], list[float]]:
        """Log-probabilities, in nats, of the chosen and of the rejected replies."""
        chosen, rejected = ([(pair.prompt, pair.replies[side]) for pair in pairs] for side in (0, 1))
        return self.of_replies(chosen), self.of_replies(rejected)

    def of_replies(self, sequences: Sequences) -> list[float]:
        """Log-probabilities, in nats, of replies after their prompts, by the engine that scores everything else."""
        was_training = self.model.training
        model = wrap(self.model, self.tokenizer)
        rows = [Scored((*prompt, *reply), max(1, len(prompt))) for prompt, reply in sequences]
        with torch.autocast(model.device.type, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            found = [score.log_probability for score in Engine(model).score_sequences(rows)]
        self.model.train(was_training)
        return found


def reference_of(job: AlignJob, subject: Subject) -> Any:
    """The model that the policy is held to, opened: the one named in the job, else the policy as it was.

    Raises :class:`~workbench.errors.ModelError` for one that has another tokenizer.
    """
    name = job.reference or job.name
    if job.reference is not None and load_tokenizer(name).get_vocab() != subject.tokenizer.get_vocab():
        raise ModelError(
            f"the reference {name} has another tokenizer than {job.name}, so their log-probabilities are "
            "of other tokens; choose a reference with the same vocabulary"
        )
    return load_with_head(name, LANGUAGE).model.to(job.device).eval()


def measured_policy(
    job: AlignJob,
    subject: Subject,
    pairs: Sequence[EncodedRow[Preference]],
    before: tuple[list[float], list[float]],
    notes: dict[str, Any],
    model: Any,
) -> Measured:
    """Held-out results by the implicit reward, β times the log-ratio of policy to reference (Rafailov et al. 2023).

    ``before`` are the reference's log-probabilities of the chosen and the rejected replies.
    """
    dtype = find_precision(job.settings.precision, job.device)
    after = ReferencePolicy(model, subject.tokenizer, dtype).of_pairs(pairs)
    beta = job.settings.beta
    scores = [
        [beta * (a - b) for a, b in zip(new, old, strict=True)]
        for new, old in zip(after, before, strict=True)
    ]
    found = measured_pairs([pair.row for pair in pairs], *scores)
    if subject.tokenizer.eos_token is None and not job.settings.chat:
        notes = {**notes, "end": f"{job.name} has no end token, so that replies are learned without an end"}
    return replace(found, notes={**found.notes, **notes})
