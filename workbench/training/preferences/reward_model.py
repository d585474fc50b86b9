"""Reward models: one output on top of any model, trained by the Bradley-Terry loss."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from trl.trainer.reward_config import RewardConfig
from trl.trainer.reward_trainer import RewardTrainer

from workbench.data.rows import Preference
from workbench.errors import ConfigError, DataError
from workbench.models.batching import head_outputs, row_of
from workbench.models.chat import in_chat_template
from workbench.training.finetuning.encoding import Features, collate
from workbench.training.finetuning.predict import in_training, pads_left
from workbench.training.finetuning.tasks import AnswerKind
from workbench.training.preferences._trainer import AlignTrainer, arguments, trainer_options
from workbench.training.preferences.encoding import too_long
from workbench.training.preferences.job import AlignJob, Measured, PreparedTrainer, Subject
from workbench.training.preferences.libraries import dataset_of
from workbench.training.preferences.reference import REWARD
from workbench.training.preferences.results import measured_pairs
from workbench.training.preferences.settings import AlignSettings, LongPrompts

__all__ = ["prepare_reward"]


class _Trainer(AlignTrainer, RewardTrainer):
    """TRL's, for models that take no further arguments."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *further: Any, **options: Any) -> Any:
        """TRL's own."""
        return super().compute_loss(_Asked(model), inputs, *further, **options)


@dataclass(frozen=True)
class _Asked:
    """A model that is given no argument which it does not name, such as the margin."""

    model: Any

    @property
    def training(self) -> bool:
        """Whether it is trained, and not measured."""
        return bool(self.model.training)

    def __call__(self, **inputs: Any) -> Any:
        return self.model(**{name: inputs[name] for name in _accepted(self.model) if name in inputs})


def prepare_reward(job: AlignJob, subject: Subject) -> PreparedTrainer:
    """A trainer of a reward model, and its accuracy on held-out pairs.

    Raises :class:`~workbench.errors.ConfigError` for a model with neither a padding nor an end token, whose head cannot
    tell where a text ends.
    """
    settings, tokenizer = job.settings, subject.tokenizer
    if tokenizer.pad_token is None:
        raise ConfigError(
            f"{job.name} has neither a padding nor an end token, without which a reward model does not find the end of "
            "a text; set tokenizer.pad_token and save the tokenizer in the model's folder"
        )
    tokenizer.truncation_side = "left"  # the reply stands at the end
    train, counts = _encoded(job.rows.train, subject, settings)
    held_out, _ = _encoded(job.rows.validation, subject, settings)
    config = RewardConfig(
        **arguments(job, subject),
        center_rewards_coefficient=settings.centring or None,
        max_length=None,
    )
    left = pads_left(subject.model, tokenizer, REWARD)
    trainer = _Trainer(
        args=config,
        train_dataset=dataset_of([pair.to_dict(settings.margin) for pair in train]),
        data_collator=partial(_batch, pad=subject.pad, left=left),
        **trainer_options(job, subject, AnswerKind.NUMBER),
    )
    return PreparedTrainer(trainer, partial(_measured, subject, held_out, counts))


def _encoded(
    pairs: Sequence[Preference], subject: Subject, settings: AlignSettings
) -> tuple[list[_Pair], dict[str, int]]:
    """Both texts of each pair as the model's arguments, and how many lost their beginning or were left out.

    Raises :class:`~workbench.errors.DataError` for prompts that leave no room, unless the settings say otherwise.
    """
    tokenizer, rule = subject.tokenizer, settings.long_prompts
    written = in_chat_template(pairs, tokenizer) if settings.chat else pairs
    ask = partial(tokenizer, add_special_tokens=not settings.chat, verbose=False)
    long = [pair for pair in written if len(ask(pair.prompt)["input_ids"]) >= subject.length]
    if long and (rule is LongPrompts.REFUSE or len(long) == len(written)):
        raise DataError(too_long([pair.id for pair in long], len(written), subject.length))
    dropped = {pair.id for pair in long} if rule is LongPrompts.DROP else set()
    kept = [(pair, new) for pair, new in zip(pairs, written, strict=True) if pair.id not in dropped]
    found, cut = [], 0
    for pair, new in kept:
        texts = [new.prompt + new.chosen, new.prompt + new.rejected]
        cut += sum(len(ask(text)["input_ids"]) > subject.length for text in texts)
        both = [dict(ask(text, truncation=True, max_length=subject.length)) for text in texts]
        found.append(
            _Pair(pair, *({k: v for k, v in one.items() if k in _accepted(subject.model)} for one in both))
        )
    counts = {"rows_dropped": len(dropped), "prompts_cut": cut}
    return found, {name: count for name, count in counts.items() if count}


@dataclass(frozen=True)
class _Pair:
    """What a model reads of a pair."""

    row: Preference
    chosen: Features
    rejected: Features

    def to_dict(self, margin: float) -> dict[str, Any]:
        """For TRL's trainer."""
        found = {"chosen": self.chosen, "rejected": self.rejected}
        return {**found, "margin": margin * self.row.margin} if margin else found


def _batch(examples: Sequence[dict[str, Any]], pad: int, left: bool) -> dict[str, torch.Tensor]:
    """The chosen texts and behind them the rejected ones, as TRL takes them."""
    texts = [example[side] for side in ("chosen", "rejected") for example in examples]
    batch = collate(texts, pad, left=left)
    if "margin" in examples[0]:
        batch["margin"] = torch.tensor([example["margin"] for example in examples])
    return batch


def _accepted(model: Any) -> set[str]:
    """Names of what the model's forward takes, inside an adapter's too."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return set(inspect.signature(inner.forward).parameters)


def _measured(subject: Subject, pairs: Sequence[_Pair], counts: dict[str, int], model: Any) -> Measured:
    """Rewards of both texts of each held-out pair."""
    was_training = model.training
    judge = in_training(model.eval(), subject.tokenizer)
    scores: list[list[float]] = []
    for side in ("chosen", "rejected"):
        rows = [row_of(getattr(pair, side)) for pair in pairs]
        batches = (rows[i : i + subject.rows] for i in range(0, len(rows), subject.rows))
        outputs = [output for batch in batches for output in head_outputs(judge, batch)]
        scores.append([float(output["logits"].squeeze()) for output in outputs])
    model.train(was_training)
    found = measured_pairs([pair.row for pair in pairs], *scores)
    return replace(found, notes={**found.notes, **counts})
