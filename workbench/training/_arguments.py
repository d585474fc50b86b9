"""A recipe as transformers' TrainingArguments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from workbench.errors import ConfigError
from workbench.models.device import fast_bfloat16
from workbench.training.settings import LoopSettings, Optimisation, Schedule, check_precision

__all__ = ["find_precision", "rows_at_once", "scheduler_name", "training_arguments"]

_NAMES = {Schedule.WSD: "warmup_stable_decay", Schedule.CONSTANT: "constant_with_warmup"}


def find_precision(wanted: str, device: torch.device) -> torch.dtype:
    """``auto`` is bfloat16 where the device is fast at it; raises :class:`~workbench.errors.ConfigError`."""
    if wanted == "auto":
        return torch.bfloat16 if fast_bfloat16(device) else torch.float32
    check_precision(wanted)
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[wanted]


def rows_at_once(
    wanted: int | None, batch_size: int, length: int, vocab_size: int, device: torch.device
) -> int:
    """Rows of one forward pass of this process: the most that divides its share of the batch and fits the scores.

    Raises :class:`~workbench.errors.ConfigError` if the batch does not divide over the processes.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if batch_size % processes:
        raise ConfigError(
            f"batch size {batch_size} does not divide over {processes} processes; use a multiple"
        )
    share = batch_size // processes
    budget = (8 << 30) if device.type == "cuda" else (256 << 20)  # bytes of float32 scores
    most = wanted or max(1, budget // (4 * length * vocab_size))
    return next(rows for rows in range(min(most, share), 0, -1) if share % rows == 0)


def training_arguments(
    out: Path,
    optimisation: Optimisation,
    loop: LoopSettings,
    *,
    rows: int,
    device: torch.device,
    has_validation: bool,
) -> TrainingArguments:
    """The arguments; the batch of a step is ``rows`` times processes times accumulation.

    Precision is the trainer's own matter: Accelerate would turn all logits into float32, a copy that costs a tenth
    of a small model's step.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    steps = optimisation.steps
    return TrainingArguments(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=rows,
        per_device_eval_batch_size=rows,
        gradient_accumulation_steps=optimisation.batch_size // processes // rows,
        learning_rate=optimisation.lr,
        lr_scheduler_type=scheduler_name(optimisation.schedule),
        lr_scheduler_kwargs=_schedule_options(optimisation),
        warmup_steps=round(optimisation.warmup * steps),
        weight_decay=optimisation.weight_decay,
        adam_beta2=optimisation.beta2,
        max_grad_norm=optimisation.clip,
        seed=optimisation.seed,
        use_cpu=device.type == "cpu",
        ddp_backend="gloo" if device.type == "cpu" and processes > 1 else None,
        ddp_find_unused_parameters=False if processes > 1 else None,
        torch_compile=loop.compile,
        logging_steps=loop.log_every,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        eval_strategy="steps" if has_validation and loop.eval_every else "no",
        eval_steps=loop.eval_every,
        prediction_loss_only=True,
        save_strategy="steps" if loop.save_every else "no",
        save_steps=loop.save_every or steps,
        save_total_limit=2,
        train_sampling_strategy="sequential",  # the order is the data set's own
        remove_unused_columns=False,
        dataloader_pin_memory=device.type == "cuda",
        label_names=["labels"],
        disable_tqdm=True,
        report_to=[],  # see LiveReport
    )


def scheduler_name(schedule: Schedule) -> str:
    """What transformers calls the schedule."""
    return _NAMES.get(schedule, str(schedule))


def _schedule_options(optimisation: Optimisation) -> dict[str, Any]:
    if optimisation.schedule is Schedule.WSD:
        return {"num_decay_steps": max(1, round(optimisation.decay * optimisation.steps))}
    return {}
