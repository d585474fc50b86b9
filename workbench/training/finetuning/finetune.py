"""Fine-tuning: a model, a task, a method, one or more seeds."""

from __future__ import annotations

import inspect
import shutil
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed
from transformers.trainer_callback import PrinterCallback

from workbench.errors import ConfigError, RunError, WorkbenchError
from workbench.estimate import Estimate
from workbench.models._device import resolve_device
from workbench.models._files import content_hash
from workbench.models.batching import padding_id
from workbench.models.loading import locate
from workbench.runs import Run, RunFolder, RunRecord
from workbench.statistics import over_seeds
from workbench.training._accelerate import should_reduce_batch_size
from workbench.training._quiet import quiet
from workbench.training.checkpoints import save_model_folder
from workbench.training.finetuning._losses import HeadLoss, check_goes_together
from workbench.training.finetuning._memory import peak_mib
from workbench.training.finetuning._trainer import (
    FeatureRows,
    HeadTrainer,
    Watch,
    class_weights,
    fine_arguments,
)
from workbench.training.finetuning.encoding import Features, collate, encode
from workbench.training.finetuning.heads import Headed, load_with_head
from workbench.training.finetuning.methods import Method, apply_method, merged
from workbench.training.finetuning.metrics import compute_metrics
from workbench.training.finetuning.predict import Answers, predict
from workbench.training.finetuning.settings import FineSettings
from workbench.training.finetuning.tasks import FineTask, TaskRows
from workbench.training.progress import Meter, ProgressLog

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

    With several seeds, ``out`` holds the model of the first, ``results`` the mean over seeds with an interval that has
    the error of the items and of the seeds, and the notes each seed's metrics. ``log.jsonl`` is the first seed's loss
    curve, ``log-seedN.jsonl`` that of another. Raises the package's errors for bad data, methods or models, a loss
    that is no number, a full disk.
    """
    settings = settings or FineSettings()
    where = resolve_device(device)
    folder = _open_run(model, rows, out, settings, where)
    outcomes: list[_Outcome] = []
    try:
        with quiet():
            for seed in settings.seeds:
                outcome = _one_seed(_Job(model, rows, settings, seed, out, where, progress))
                outcomes.append(outcome)
                if progress:
                    values = ", ".join(f"{name} {e.cells()[0]}" for name, e in outcome.metrics.items())
                    print(f"seed {seed}: {values}", flush=True)
    except WorkbenchError:
        if not outcomes:  # the folder holds nothing but the recipe; the next try shall find its place free
            shutil.rmtree(out)
        raise
    first = outcomes[0]
    folder.append(
        [
            {"id": f"validation-{i}", "predicted": str(p), "gold": str(g)}
            for i, (p, g) in enumerate(zip(first.answers.predicted, first.answers.gold, strict=True))
        ]
    )
    folder.finish(
        {rows.task.name: _over_seeds(outcomes)}, _throughput(outcomes), _notes(settings, outcomes, out)
    )
    return Run.open(out)


@dataclass(frozen=True)
class _Job:
    """One seed's work."""

    name: str
    rows: TaskRows
    settings: FineSettings
    seed: int
    out: Path
    device: torch.device
    show: bool

    @property
    def is_first(self) -> bool:
        """Whether this is the seed whose weights are kept."""
        return self.seed == self.settings.seeds[0]

    @property
    def log(self) -> Path:
        """The seed's own log file."""
        return self.out / ("log.jsonl" if self.is_first else f"log-seed{self.seed}.jsonl")


@dataclass(frozen=True)
class _Outcome:
    metrics: dict[str, Estimate]
    answers: Answers
    seconds: float
    memory: float
    trained: int
    parameters: int
    tokens: int


def _open_run(
    model: str, rows: TaskRows, out: Path, settings: FineSettings, device: torch.device
) -> RunFolder:
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} exists already; remove it, or choose another --out")
    weights = Path(locate(model))
    known = {"sha256": content_hash(weights.glob("*.safetensors"))} if weights.is_dir() else {}
    if out.is_dir():
        out.rmdir()
    sizes = {"train": len(rows.train), "validation": len(rows.validation), "sha256": rows.sha256}
    task = rows.task
    columns = {"kind": str(task.kind), "text": task.text, "pair": task.pair, "label": task.label}
    columns |= {"rationale": task.rationale, "validation": rows.validation_file}
    record = RunRecord.new(
        "finetune",
        recipe={"task": task.name, **columns, **settings.to_dict()},
        model={"name": model, **known},
        data={rows.task.name: sizes},
        seeds={"training": list(settings.seeds)},
        device=str(device),
    )
    return RunFolder.create(out.parent, replace(record, id=out.name))


def _one_seed(job: _Job) -> _Outcome:
    """Train; out of memory, halve the rows of a pass, keep the batch, and begin the seed again."""
    rows = job.settings.batch_size
    while True:
        try:
            return _attempt(job, rows)
        except (RuntimeError, MemoryError) as error:
            if not (isinstance(error, MemoryError) or should_reduce_batch_size(error)):
                raise
            if rows == 1:
                raise ConfigError(
                    "out of memory with one row at a time; shorten --length, or use --method lora"
                ) from error
        rows = max(r for r in range(1, rows // 2 + 1) if job.settings.batch_size % r == 0)
        print(f"out of memory: again with {rows} rows at a time, the batch stays", file=sys.stderr)


def _attempt(job: _Job, rows_at_once: int) -> _Outcome:
    settings, task = job.settings, job.rows.task
    set_seed(job.seed)  # the head's weights, dropout
    started, method = time.perf_counter(), Method(settings.method)
    headed = load_with_head(job.name, task, settings.layers)
    model, pad = headed.model, padding_id(headed.tokenizer, headed.model.config)
    check_goes_together(settings, task, model.config)
    if task.rationale is not None:
        model.set_attn_implementation("eager")  # the others do not tell their weights
    if method in (Method.PREFIX, Method.PROMPT) and job.is_first:  # cannot be merged: the base goes with them
        model.save_pretrained(job.out / "base")
    training, validation = _features(job, headed)
    parameters = sum(p.numel() for p in model.parameters())
    model = apply_method(model, method, task.kind, rank=settings.rank, virtual_tokens=settings.virtual_tokens)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)

    def answer(asked: Any) -> Answers:
        return predict(asked, headed.tokenizer, validation, job.rows.validation, task, settings.batch_size)

    meter = Meter()
    watch, log = Watch(answer, task, settings.patience), ProgressLog(job.log, meter, show=_shows(job))
    trainer = HeadTrainer(
        headed=headed,
        loss=_loss(settings, task, training),
        meter=meter,
        model=model,
        args=fine_arguments(settings, job.seed, job.out, job.device, rows_at_once, parameters),
        train_dataset=FeatureRows(training),
        data_collator=lambda features: collate(features, pad),
        callbacks=[watch, log],
    )
    trainer.remove_callback(PrinterCallback)
    _train(trainer, log, job.name)
    watch.restore(trainer.model)
    model = merged(trainer.model, method)
    answers = answer(model)
    if job.is_first:
        save_model_folder(model, headed.tokenizer, job.out)
    metrics = compute_metrics(task.kind, answers.predicted, answers.gold)
    seconds = time.perf_counter() - started
    return _Outcome(metrics, answers, seconds, peak_mib(job.device), trained, parameters, meter.tokens)


def _features(job: _Job, headed: Headed) -> tuple[list[Features], list[Features]]:
    """Training and validation rows as inputs that the model takes."""
    settings, model, tokenizer = job.settings, headed.model, headed.tokenizer
    length = _longest(model, tokenizer)
    if settings.method in (Method.PREFIX, Method.PROMPT):
        length -= settings.virtual_tokens
    accepted = {*inspect.signature(model.forward).parameters, "offsets", "marked"}
    task = job.rows.task
    encoded = []
    for rows, read in ((job.rows.train, task), (job.rows.validation, replace(task, rationale=None))):
        features = encode(
            rows,
            read,
            tokenizer,
            min(settings.length, length),
            two_sided=model.config.is_encoder_decoder,
        )
        encoded.append([{k: v for k, v in f.items() if k in accepted} for f in features])
    return encoded[0], encoded[1]


def _loss(settings: FineSettings, task: FineTask, training: list[Features]) -> HeadLoss:
    return HeadLoss(
        weights=class_weights(task, training) if settings.class_weights else None,
        mixup=settings.mixup,
        rationale=settings.rationale_weight,
    )


def _shows(job: _Job) -> bool:
    return job.show and sys.stderr.isatty()


def _train(trainer: HeadTrainer, log: ProgressLog, name: str) -> None:
    try:
        trainer.train()
    except ValueError as error:
        if "past key values" not in str(error):
            raise
        raise ConfigError(
            f"peft cannot put a prefix into the layers of {name} for this task: that goes with --kind response and "
            "transformers' own decoders; use --method prompt, lora or adapter"
        ) from error
    finally:
        log.close()


def _longest(model: Any, tokenizer: Any) -> int:
    config = model.config.get_text_config()
    limits = [getattr(config, n, None) for n in ("max_position_embeddings", "n_positions")]
    known = [int(n) for n in [*limits, tokenizer.model_max_length] if n and n < 10**9]
    offset = (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
    return min(known, default=512) - offset


def _throughput(outcomes: list[_Outcome]) -> dict[str, float]:
    seconds, tokens = sum(o.seconds for o in outcomes), sum(o.tokens for o in outcomes)
    return {
        "seconds": seconds,
        "tokens": tokens,
        "tokens_per_second": tokens / seconds,
        "peak_memory_mib": max(o.memory for o in outcomes),
        "trained_parameters": outcomes[0].trained,
        "all_parameters": outcomes[0].parameters,
    }


def _notes(settings: FineSettings, outcomes: list[_Outcome], out: Path) -> dict[str, Any]:
    seeds = {
        str(s): {n: e.value for n, e in o.metrics.items()}
        for s, o in zip(settings.seeds, outcomes, strict=True)
    }
    rate = settings.learning_rate(outcomes[0].parameters)
    return {"seeds": seeds, "learning_rate": rate, "weights_sha256": content_hash(out.glob("*.safetensors"))}


def _over_seeds(outcomes: list[_Outcome]) -> dict[str, Estimate]:
    """One seed's own interval; of several, the mean with the error of the items and that of the seeds."""
    if len(outcomes) == 1:
        return outcomes[0].metrics
    return {name: over_seeds([o.metrics[name] for o in outcomes]).total for name in outcomes[0].metrics}
