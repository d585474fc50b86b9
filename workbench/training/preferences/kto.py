"""Kahneman-Tversky optimization: from replies that are called good or bad one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

from trl.trainer.kto_config import KTOConfig
from trl.trainer.kto_trainer import DataCollatorForUnpairedPreference, KTOTrainer

from workbench.data.preferences import as_rated
from workbench.data.rows import RatedReply
from workbench.errors import ConfigError, DataError
from workbench.training.preferences._trainer import AlignTrainer, arguments, trainer_options
from workbench.training.preferences.encoding import EncodedRow
from workbench.training.preferences.job import AlignJob, PreparedTrainer, Subject
from workbench.training.preferences.libraries import dataset_of
from workbench.training.preferences.reference import ReferencePolicy, measured_policy

__all__ = ["prepare_kto"]


class _Trainer(AlignTrainer, KTOTrainer):
    """TRL's, on rows that have the reference's log-probabilities."""


def prepare_kto(job: AlignJob, subject: Subject) -> PreparedTrainer:
    """A trainer of one of KTO's losses, and the accuracy of its implicit reward on held-out pairs.

    Of pairs the chosen replies are desirable and the rejected ones are not. Scored replies are desirable above the mean
    of all scores.
    """
    settings, encoder = job.settings, subject.encoder(job.settings)
    if settings.loss_type == "kto" and subject.rows < 2:
        raise ConfigError(
            "kto estimates its KL term from the other replies that go through the model at once, and has one at a "
            "time; use --batch-size 2 or more, or --loss apo_zero_unpaired"
        )
    replies = list(job.rows.replies or as_rated(job.rows.train))
    random.Random(job.seed).shuffle(replies)
    train, cut = encoder.encode(replies)
    held_out, _ = encoder.encode(job.rows.validation)
    reference = ReferencePolicy.of(job, subject)
    config = KTOConfig(
        **arguments(job, subject),
        loss_type=settings.loss_type,
        beta=settings.beta,
        desirable_weight=settings.desirable_weight,
        undesirable_weight=settings.undesirable_weight,
        train_sampling_strategy="sequential",  # so that rows go together whose KL term was made of one another
        max_length=None,
        precompute_ref_log_probs=True,
    )
    before = reference.of_pairs(held_out)
    trainer = _Trainer(
        args=config,
        train_dataset=dataset_of(_rows(train, reference, subject.rows)),
        data_collator=DataCollatorForUnpairedPreference(pad_token_id=subject.pad),
        **trainer_options(job, subject),
    )
    trainer.check_log_probs(train[0].prompt + train[0].replies[0], job.name)
    return PreparedTrainer(trainer, partial(measured_policy, job, subject, held_out, before, cut))


def _rows(
    train: Sequence[EncodedRow[RatedReply]], reference: ReferencePolicy, together: int
) -> list[dict[str, Any]]:
    """Rows as TRL names them; each prompt also has the reply before it in its batch, for the KL term."""
    good = _desirable([one.row.score for one in train])
    others = [
        train[i - 1 if i % together else min(i + together, len(train)) - 1].replies[0]
        for i in range(len(train))
    ]
    logs = reference.of_replies([(one.prompt, one.replies[0]) for one in train])
    other_logs = reference.of_replies([(one.prompt, ids) for one, ids in zip(train, others, strict=True)])
    return [
        {
            "prompt_ids": one.prompt,
            "completion_ids": one.replies[0],
            "KL_completion_ids": other,
            "label": label,
            "ref_logps": log,
            "ref_KL_logps": other_log,
        }
        for one, other, label, log, other_log in zip(train, others, good, logs, other_logs, strict=True)
    ]


def _desirable(scores: Sequence[float]) -> list[bool]:
    """Which replies are desirable; raises :class:`~workbench.errors.DataError` if all are alike."""
    mean = sum(scores) / len(scores)
    if min(scores) == max(scores):
        raise DataError(f"every reply has the score {mean:g}; kto needs desirable and undesirable replies")
    return [score > mean for score in scores]
