"""transformers' Trainer for a head: arguments, class weights, early stopping, a stop at a loss that is no number."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch.utils.data import Dataset
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from workbench.errors import NumericsError
from workbench.runs import write_atomically
from workbench.training._arguments import find_precision, scheduler_name
from workbench.training._resumable import Resumable, put_back, trained_weights
from workbench.training.finetuning._losses import HeadLoss
from workbench.training.finetuning.encoding import Features
from workbench.training.finetuning.heads import Headed
from workbench.training.finetuning.metrics import compute_metrics
from workbench.training.finetuning.predict import Answers
from workbench.training.finetuning.settings import FineSettings
from workbench.training.finetuning.tasks import AnswerKind, FineTask
from workbench.training.loop import devices_in_mean, of_all_devices
from workbench.training.objectives import IGNORED
from workbench.training.progress import Meter

BEST = "best.safetensors"

__all__ = ["FeatureRows", "HeadTrainer", "Watch", "class_weights", "fine_arguments"]


def fine_arguments(
    settings: FineSettings, seed: int, out: Path, device: torch.device, rows: int, parameters: int
) -> TrainingArguments:
    """The arguments; ``rows`` are those of one forward pass, the rest of a batch comes by accumulation.

    ``parameters`` are the whole model's.
    """
    return TrainingArguments(
        output_dir=str(out),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=max(1, settings.batch_size // rows),
        learning_rate=settings.learning_rate(parameters),
        lr_scheduler_type=scheduler_name(settings.schedule),
        warmup_steps=settings.warmup,
        weight_decay=settings.weight_decay,
        activation_checkpointing=settings.gradient_checkpointing,
        seed=seed,
        bf16=find_precision(settings.precision, device) == torch.bfloat16,
        use_cpu=device.type == "cpu",
        logging_nan_inf_filter=False,
        logging_steps=10,
        logging_first_step=True,
        save_strategy="epoch",
        save_total_limit=2,
        train_sampling_strategy="group_by_length",  # less padding
        remove_unused_columns=False,
        dataloader_pin_memory=device.type == "cuda",
        disable_tqdm=True,
        report_to=[],
    )


def class_weights(task: FineTask, features: Sequence[Features]) -> torch.Tensor | None:
    """Weights (labels,) under which each label counts as if all were equally frequent; none for other kinds."""
    if task.kind not in (AnswerKind.CLASS, AnswerKind.TOKENS):
        return None
    labels = torch.cat([torch.tensor(f["labels"]).reshape(-1) for f in features])
    counts = torch.bincount(labels[labels != IGNORED], minlength=len(task.labels))
    return counts.sum() / (len(counts) * counts.clamp(min=1))


class FeatureRows(Dataset[Features]):
    """Encoded rows as a data set."""

    def __init__(self, features: Sequence[Features]) -> None:
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> Features:
        return self.features[index]


class HeadTrainer(Resumable):
    """Trainer that counts tokens, stops at the first loss that is no number, and keeps what it trains to resume."""

    def __init__(self, *, headed: Headed, loss: HeadLoss, meter: Meter, watch: Watch, **options: Any) -> None:
        super().__init__(**options)
        self.model_accepts_loss_kwargs = True  # so that a step's labels are counted
        self.headed = headed
        self.head_loss = loss
        self.meter = meter
        self.watch = watch

    def go_on(self, checkpoint: Path | None) -> None:
        """Train, from ``checkpoint`` on if there is one."""
        if checkpoint is not None:
            self.watch.load(checkpoint)
        if not self.watch.is_over:
            self.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))

    def keep(self, folder: Path) -> None:
        """The best weights so far go with a checkpoint."""
        self.watch.save(folder)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """As :class:`HeadLoss` says; raises :class:`~workbench.errors.NumericsError`."""
        self.meter.tokens += int(inputs["attention_mask"].sum())
        loss, output = self.head_loss(model, inputs, one_by_one=self.headed.one_by_one)
        if not torch.isfinite(loss):
            raise NumericsError(
                f"the loss is not a number at step {self.state.global_step + 1}; nothing was stored; lower --lr"
            )
        if num_items_in_batch is not None:  # the batch's own mean, as its part of the step's
            share = self._count(inputs) / torch.as_tensor(num_items_in_batch).reshape(-1)[0]
            loss = loss * share * devices_in_mean(self.args)
        return (loss, output) if return_outputs else loss

    def _count(self, batch: dict[str, Any]) -> torch.Tensor:
        return self.head_loss.count(batch["labels"][..., 1:] if self._loss_shifts_labels else batch["labels"])

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> Any:
        """What a step's loss is a mean over, on all devices; ``None`` of spans, whose rows count alike."""
        if not batch_samples or "labels" not in batch_samples[0]:
            return None
        total = torch.stack([self._count(batch) for batch in batch_samples]).sum()
        return of_all_devices(self, total.to(device))


class Watch(TrainerCallback):
    """With patience, measures after each epoch, keeps the best weights and stops when they are long ago."""

    def __init__(self, answer: Callable[[Any], Answers], task: FineTask, patience: int | None) -> None:
        self.answer = answer
        self.task = task
        self.patience = patience
        self.best: float | None = None
        self.weights: dict[str, torch.Tensor] = {}
        self.waited = 0

    @property
    def is_over(self) -> bool:
        """Whether the best is so long ago that training ends."""
        return self.patience is not None and self.waited >= self.patience

    def on_epoch_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Measure, remember the best, and stop when it has been long ago."""
        if self.patience is None:
            return
        answers = self.answer(model)
        found = compute_metrics(self.task.kind, answers.predicted, answers.gold)[self.task.metric]
        value = found.value if found.higher_is_better else -found.value
        if self.best is None or value > self.best:
            self.best, self.waited, self.weights = value, 0, trained_weights(model)
        else:
            self.waited += 1
            control.should_training_stop = self.is_over

    def restore(self, model: Any) -> None:
        """Put the best weights back."""
        put_back(model, self.weights)

    def save(self, folder: Path) -> None:
        """Keep what it has seen in a checkpoint."""
        if self.weights:
            save_file(self.weights, folder / BEST)
        state = {"best": self.best, "waited": self.waited}
        write_atomically(folder / "watch.json", json.dumps(state).encode())

    def load(self, folder: Path) -> None:
        """Take it up again."""
        state = json.loads((folder / "watch.json").read_text(encoding="utf-8"))
        self.best, self.waited = state["best"], state["waited"]
        if (folder / BEST).is_file():
            self.weights = load_file(folder / BEST)
