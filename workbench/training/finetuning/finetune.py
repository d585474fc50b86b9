"""Fine-tuning: a model, a task, a method, one or more seeds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback

from workbench.errors import ConfigError, NumericsError, RunError
from workbench.estimate import Estimate
from workbench.models._device import resolve_device
from workbench.runs import Run, RunFolder, RunRecord
from workbench.training._arguments import find_precision
from workbench.training._quiet import quiet
from workbench.training.finetuning._memory import peak_mib
from workbench.training.finetuning.encoding import Features, collate, encode
from workbench.training.finetuning.heads import load_with_head
from workbench.training.finetuning.methods import Method, apply_method, merged
from workbench.training.finetuning.metrics import compute_metrics
from workbench.training.finetuning.predict import Answers, predict
from workbench.training.finetuning.settings import FineSettings
from workbench.training.finetuning.tasks import AnswerKind, FineTask, TaskRows

__all__ = ["finetune"]


def finetune(
    model: str,
    rows: TaskRows,
    out: Path,
    settings: FineSettings | None = None,
    *,
    device: str = "auto",
    progress: bool = False,
) -> Run:
    """Fine-tune the model called ``model`` on ``rows`` and store it in ``out``, with its run.

    With several seeds, ``out`` holds the model of the first, ``results`` the mean over seeds with its standard
    error, and the notes each seed's metrics. Raises the package's errors for bad data, methods or models.
    """
    settings = settings or FineSettings()
    folder = _open_run(model, rows, out, settings, device)
    outcomes: list[_Outcome] = []
    with quiet():
        for seed in settings.seeds:
            outcome = _one_seed(model, rows, settings, seed, out, resolve_device(device), progress)
            outcomes.append(outcome)
            if progress:
                values = ", ".join(f"{name} {e.value:.4f}" for name, e in outcome.metrics.items())
                print(f"seed {seed}: {values}", flush=True)
    first = outcomes[0]
    folder.append(
        [
            {"id": f"validation-{i}", "predicted": str(p), "gold": str(g)}
            for i, (p, g) in enumerate(zip(first.answers.predicted, first.answers.gold, strict=True))
        ]
    )
    throughput = {
        "seconds": sum(o.seconds for o in outcomes),
        "peak_memory_mib": max(o.memory for o in outcomes),
        "trained_parameters": first.trained,
        "all_parameters": first.parameters,
    }
    seeds = {
        str(s): {n: e.value for n, e in o.metrics.items()}
        for s, o in zip(settings.seeds, outcomes, strict=True)
    }
    folder.finish({rows.task.name: _over_seeds(outcomes)}, throughput, {"seeds": seeds})
    return Run.open(out)


@dataclass(frozen=True)
class _Outcome:
    metrics: dict[str, Estimate]
    answers: Answers
    seconds: float
    memory: float
    trained: int
    parameters: int


def _open_run(model: str, rows: TaskRows, out: Path, settings: FineSettings, device: str) -> RunFolder:
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} exists already; remove it, or choose another --out")
    if out.is_dir():
        out.rmdir()
    out.parent.mkdir(parents=True, exist_ok=True)
    record = RunRecord.new(
        "finetune",
        recipe={"task": rows.task.name, "kind": str(rows.task.kind), **settings.to_dict()},
        model={"name": model},
        data={rows.task.name: {"train": len(rows.train), "validation": len(rows.validation)}},
        seeds={"training": list(settings.seeds)},
        device=str(resolve_device(device)),
    )
    return RunFolder.create(out.parent, replace(record, id=out.name))


def _one_seed(
    name: str, rows: TaskRows, settings: FineSettings, seed: int, out: Path, device: torch.device, show: bool
) -> _Outcome:
    set_seed(seed)  # the head's weights, dropout
    started, task, method = time.perf_counter(), rows.task, Method(settings.method)
    model, tokenizer = load_with_head(name, task)
    in_prefix = method in (Method.PREFIX, Method.PROMPT)
    if in_prefix and seed == settings.seeds[0]:  # these cannot be merged: the base goes with them
        model.save_pretrained(out / "base")
    length = min(settings.length, _longest(model, tokenizer))
    if in_prefix:
        length = min(length, _longest(model, tokenizer) - settings.virtual_tokens)
    training = encode(rows.train, task, tokenizer, length)
    validation = encode(rows.validation, task, tokenizer, length)
    parameters = sum(p.numel() for p in model.parameters())
    model = apply_method(model, method, task.kind, rank=settings.rank, virtual_tokens=settings.virtual_tokens)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    pad = int(tokenizer.pad_token_id or 0)
    watch = _Watch(
        lambda m: predict(m, validation, rows.validation, task, pad, settings.batch_size),
        task,
        settings,
        show,
    )
    trainer = _HeadTrainer(
        weights=_class_weights(rows, training, settings),
        model=model,
        args=_arguments(settings, seed, out, device),
        train_dataset=_Rows(training),
        data_collator=lambda features: collate(features, pad),
        callbacks=[watch],
    )
    trainer.remove_callback(PrinterCallback)
    try:
        trainer.train()
    except ValueError as error:
        if "past key values" not in str(error):
            raise
        raise ConfigError(
            f"this peft cannot tune a prefix of {name} with this transformers; "
            "use --method prompt, lora or adapter"
        ) from error
    watch.restore(trainer.model)
    model = merged(trainer.model, method)
    answers = predict(model, validation, rows.validation, task, pad, settings.batch_size)
    if seed == settings.seeds[0]:
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
    metrics = compute_metrics(task.kind, answers.predicted, answers.gold)
    return _Outcome(metrics, answers, time.perf_counter() - started, peak_mib(device), trained, parameters)


def _longest(model: Any, tokenizer: Any) -> int:
    config = model.config.get_text_config()
    limits = [getattr(config, n, None) for n in ("max_position_embeddings", "n_positions")]
    known = [int(n) for n in [*limits, tokenizer.model_max_length] if n and n < 10**9]
    offset = (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
    return min(known, default=512) - offset


def _arguments(settings: FineSettings, seed: int, out: Path, device: torch.device) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(out),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=settings.warmup,
        weight_decay=settings.weight_decay,
        seed=seed,
        bf16=find_precision(settings.precision, device) == torch.bfloat16,
        use_cpu=device.type == "cpu",
        logging_nan_inf_filter=False,
        logging_steps=20,
        save_strategy="no",
        train_sampling_strategy="group_by_length",  # less padding
        remove_unused_columns=False,
        dataloader_pin_memory=device.type == "cuda",
        disable_tqdm=True,
        report_to=[],
    )


def _class_weights(
    rows: TaskRows, features: Sequence[Features], settings: FineSettings
) -> torch.Tensor | None:
    if not settings.class_weights or rows.task.kind is not AnswerKind.CLASS:
        return None
    counts = torch.bincount(torch.tensor([f["labels"] for f in features]), minlength=len(rows.task.labels))
    return len(features) / (len(counts) * counts.clamp(min=1))


def _over_seeds(outcomes: list[_Outcome]) -> dict[str, Estimate]:
    """One seed's own interval; of several, mean, standard error and range of the mean over seeds."""
    if len(outcomes) == 1:
        return outcomes[0].metrics
    found = {}
    for name, estimate in outcomes[0].metrics.items():
        values = [o.metrics[name].value for o in outcomes]
        mean, error = statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5
        found[name] = replace(
            estimate,
            value=mean,
            standard_error=error,
            low=mean - 1.96 * error,
            high=mean + 1.96 * error,
            n=len(values),
            method="normal, over seeds",
        )
    return found


class _Rows(Dataset[Features]):
    def __init__(self, features: Sequence[Features]) -> None:
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> Features:
        return self.features[index]


class _HeadTrainer(Trainer):
    def __init__(self, *, weights: torch.Tensor | None, **options: Any) -> None:
        super().__init__(**options)
        self.weights = weights

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The model's own loss, or a weighted cross-entropy."""
        if self.weights is None:
            loss, output = super().compute_loss(model, inputs, True, num_items_in_batch)
        else:
            output = model(**inputs)
            loss = F.cross_entropy(
                output.logits.float(), inputs["labels"], weight=self.weights.to(output.logits.device)
            )
        return (loss, output) if return_outputs else loss


class _Watch(TrainerCallback):
    """Stops at a loss that is no number; with patience, measures after each epoch and keeps the best weights."""

    def __init__(self, ask: Any, task: FineTask, settings: FineSettings, show: bool) -> None:
        self.ask = ask
        self.task = task
        self.settings = settings
        self.show = show
        self.best: float | None = None
        self.weights: dict[str, torch.Tensor] = {}
        self.waited = 0

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Refuse NaN."""
        loss = (logs or {}).get("loss")
        if loss is not None and not torch.isfinite(torch.tensor(float(loss))):
            raise NumericsError(f"the loss is not a number at step {state.global_step}; lower --lr")

    def on_epoch_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Measure, remember the best, and stop when it has been long ago."""
        if self.settings.patience is None:
            return
        answers = self.ask(model)
        found = compute_metrics(self.task.kind, answers.predicted, answers.gold)[self.task.metric]
        value = found.value if found.higher_is_better else -found.value
        if self.best is None or value > self.best:
            self.best, self.waited = value, 0
            trained = (item for item in model.named_parameters() if item[1].requires_grad)
            self.weights = {name: p.detach().clone() for name, p in trained}
        else:
            self.waited += 1
            control.should_training_stop = self.waited >= self.settings.patience

    def restore(self, model: Any) -> None:
        """Put the best weights back."""
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in self.weights:
                    parameter.copy_(self.weights[name])
