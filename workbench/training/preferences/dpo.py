"""Direct preference optimization: TRL's trainer on token ids of ours."""

from __future__ import annotations

from functools import partial

from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DataCollatorForPreference, DPOTrainer

from workbench.training.preferences._trainer import AlignTrainer, arguments, trainer_options
from workbench.training.preferences.job import AlignJob, PreparedTrainer, Subject
from workbench.training.preferences.libraries import dataset_of
from workbench.training.preferences.reference import ReferencePolicy, measured_policy

__all__ = ["prepare_dpo"]


class _Trainer(AlignTrainer, DPOTrainer):
    """TRL's, on rows that have the reference's log-probabilities."""


def prepare_dpo(job: AlignJob, subject: Subject) -> PreparedTrainer:
    """A trainer of one of DPO's losses, and the accuracy of its implicit reward."""
    settings, encoder = job.settings, subject.encoder(job.settings)
    train, cut = encoder.encode(job.rows.train)
    held_out, _ = encoder.encode(job.rows.validation)
    reference = ReferencePolicy.of(job, subject)
    chosen, rejected = reference.of_pairs(train)
    rows = [
        {
            "prompt_ids": pair.prompt,
            "chosen_ids": pair.replies[0],
            "rejected_ids": pair.replies[1],
            "ref_chosen_logps": a,
            "ref_rejected_logps": b,
        }
        for pair, a, b in zip(train, chosen, rejected, strict=True)
    ]
    config = DPOConfig(
        **arguments(job, subject),
        beta=settings.beta,
        loss_type=[settings.loss_type],
        label_smoothing=settings.label_smoothing,
        max_length=None,
        precompute_ref_log_probs=True,
    )
    before = reference.of_pairs(held_out)
    trainer = _Trainer(
        args=config,
        train_dataset=dataset_of(rows),
        data_collator=DataCollatorForPreference(pad_token_id=subject.pad),
        **trainer_options(job, subject),
    )
    trainer.check_log_probs(train[0].prompt + train[0].replies[0], job.name)
    return PreparedTrainer(trainer, partial(measured_policy, job, subject, held_out, before, cut))
