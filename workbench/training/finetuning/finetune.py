"""Fine-tuning: a model, a task, a method, one or more seeds."""

from __future__ import annotations

import inspect
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed
from transformers.trainer_callback import PrinterCallback

from workbench.data.tables import Rows
from workbench.errors import WorkbenchError
from workbench.folders import share
from workbench.models import LoadedModel
from workbench.models.batching import padding_id
from workbench.models.device import resolve_device
from workbench.pretrained import quiet
from workbench.records import settings_of, takes_fields_of
from workbench.runs import Run, RunFolder, RunRecord, default_root
from workbench.runs.trackers import LiveReport, check_trackers, report_run
from workbench.terminal import say, shows_progress
from workbench.text.chats import PLAIN_TEMPLATE
from workbench.training._outcome import Outcome, peak_mib
from workbench.training._seeds import (
    SeedJob,
    metrics_over_seeds,
    open_folder,
    run_seed,
    seed_notes,
    throughput,
)
from workbench.training.checkpoints import (
    claim_folder,
    discard_broken_checkpoints,
    find_checkpoints,
    has_progress,
    save_model_folder,
)
from workbench.training.finetuning._losses import HeadLoss, check_losses
from workbench.training.finetuning._trainer import (
    FeatureRows,
    HeadTrainer,
    Watch,
    class_weights,
    fine_arguments,
)
from workbench.training.finetuning.conversations import check_packs, pack
from workbench.training.finetuning.encoding import Features, collate, encode
from workbench.training.finetuning.heads import Headed, Pooling, check_pools, load_with_head
from workbench.training.finetuning.methods import (
    PROMPTED,
    Method,
    apply_method,
    check_goes_together,
    merged,
    try_one_step,
)
from workbench.training.finetuning.metrics import compute_metrics, loss_changes
from workbench.training.finetuning.predict import Answers, pads_left, predict
from workbench.training.finetuning.settings import FineSettings
from workbench.training.finetuning.tasks import AnswerKind, FineTask, TaskRows, load_task
from workbench.training.origin import folder_of, longest_input, model_identity
from workbench.training.progress import Meter, ProgressLog

__all__ = ["default_folder", "finetune"]

_SHORT_OF_MEMORY = "shorten --length, or use --method lora"  # what helps


class _Job(SeedJob):
    """One seed's work."""

    rows: TaskRows
    settings: FineSettings


@takes_fields_of(FineSettings)
def finetune(
    model: LoadedModel | str,
    rows: TaskRows | str | Path | Rows,
    out: Path | str | None = None,
    settings: FineSettings | None = None,
    *,
    data_dir: Path | str | None = None,
    kind: str | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    rationale: str | None = None,
    validation: Path | str | None = None,
    limit: int | None = None,
    resume: bool = False,
    device: str = "auto",
    progress: bool = False,
    report_to: Sequence[str] = (),
    **options: Any,
) -> Run:
    """Fine-tune a model on rows and store it in ``out``, with its run.

    With several seeds, ``out`` holds the model of the first, ``results`` the mean over seeds with an interval that has
    the error of the items and of the seeds, and the notes each seed's metrics. ``log.jsonl`` is the first seed's loss
    curve, ``log-seedN.jsonl`` that of another.

    Args:
        model: a name as :func:`workbench.load` takes it, or a model loaded from files, which stays as it is.
        rows: a GLUE task, a table's file or ``hub:owner/name``; a DataFrame, a ``datasets.Dataset`` or mappings; or
            what :func:`load_task` read.
        out: the folder that gets the model; by default ``runs/MODEL-TASK-METHOD``.
        settings: the recipe; or name its fields as keywords.
        data_dir, kind, text, pair, label, rationale, validation, limit: of :func:`load_task`.
        resume: go on with a run that was stopped, from the seeds that are done and the last epoch's checkpoint, to
            the same result; where nothing is there it starts.
        device: "auto", "cpu", "cuda" or "mps".
        progress: print the loss, and show a bar.
        report_to: trackers ("tensorboard", "wandb", "mlflow") that get the curves as it trains, and the results.
        **options: fields of :class:`FineSettings`, such as ``method="lora"``.

    Raises the package's errors for bad data, methods or models, a loss that is no number, a full disk, a run of other
    settings.

    Example:
        ```python
        from pathlib import Path

        import workbench

        rows = ["text,label"] + [f"a {word} film,{word}" for word in ("good", "bad")] * 10
        Path("films.csv").write_text("\\n".join(rows))
        run = workbench.finetune("novels-encoder", "films.csv", epochs=1)
        print(run.to_frame())
        ```
    """
    settings = settings_of(FineSettings, settings, options)
    columns = {"kind": kind, "text": text, "pair": pair, "label": label, "rationale": rationale}
    name = model if isinstance(model, str) else folder_of(model)
    if not isinstance(rows, TaskRows):
        files = {"data_dir": data_dir, "validation": validation}
        paths = {what: None if path is None else Path(path) for what, path in files.items()}
        rows = load_task(rows, **paths, **columns, limit=limit)  # type: ignore[arg-type]
    where = Path(out) if out is not None else default_folder(name, rows, settings)
    return _finetune(name, rows, where, settings, resume, device, progress, check_trackers(report_to))


def default_folder(model: str, rows: TaskRows, settings: FineSettings) -> Path:
    """The default folder of a fine-tuned model: ``runs/MODEL-TASK-METHOD``."""
    return default_root() / f"{Path(model).name}-{rows.task.name}-{settings.method}"


def _finetune(
    model: str,
    rows: TaskRows,
    out: Path,
    settings: FineSettings,
    resume: bool,
    device: str,
    progress: bool,
    trackers: Sequence[str],
) -> Run:
    check_goes_together(Method(settings.method), rows.task.kind)
    check_pools(settings.pooling, rows.task.kind)
    where = resolve_device(device)
    found = claim_folder(out, "finetune", resume=resume)
    folder = _open_run(model, rows, out, settings, where, found)
    if folder.complete:
        run = Run.open(out.resolve())
        report_run(run, trackers)
        return run
    try:
        with closing(LiveReport(trackers, folder.record, folder.path)) as report:
            return _trained_run(
                _Job(model, rows, settings, settings.seeds[0], out, where, progress, report), folder
            )
    except WorkbenchError:
        # With nothing but the recipe in it, the next try finds the folder free.
        if not (folder.complete or has_progress(out)):
            folder.remove()
        raise


def _trained_run(job: _Job, folder: RunFolder) -> Run:
    """Train every seed, and store what came of them."""
    rows, settings, out = job.rows, job.settings, job.out
    with quiet():
        jobs = [replace(job, seed=seed) for seed in settings.seeds]
        outcomes = [run_seed(one, partial(_attempt, one), _SHORT_OF_MEMORY) for one in jobs]
    done = folder.finished_ids()
    folder.append([row for row in _example_rows(rows, outcomes[0]) if row["id"] not in done])
    folder.finish(
        {rows.task.name: metrics_over_seeds(outcomes)},
        throughput(outcomes),
        seed_notes(settings, outcomes, out),
    )
    shutil.rmtree(out / "seeds", ignore_errors=True)
    run = Run.open(out.resolve())
    job.report.finish(run)
    return run


def _example_rows(rows: TaskRows, outcome: Outcome) -> Iterator[dict[str, Any]]:
    """What the model answered to each row, with the texts that it read."""
    columns = {rows.task.text: "text"}
    if rows.task.pair is not None and rows.task.kind is not AnswerKind.CHOICE:
        columns = {rows.task.text: "first_text", rows.task.pair: "second_text"}
    for i, (row, (predicted, gold)) in enumerate(zip(rows.validation, outcome.answers, strict=True)):
        texts = {name: row[column] for column, name in columns.items() if isinstance(row[column], str)}
        yield {"id": f"validation-{i}", **texts, "predicted": predicted, "gold": gold}


def _open_run(
    model: str, rows: TaskRows, out: Path, settings: FineSettings, device: torch.device, found: Run | None
) -> RunFolder:
    """A new run in ``out``, or the one ``found`` there; raises :class:`~workbench.errors.RunError` if it is another."""
    sizes = {"train": len(rows.train), "validation": len(rows.validation), "sha256": rows.sha256}
    task = rows.task
    columns = {"kind": str(task.kind), "text": task.text, "pair": task.pair, "label": task.label}
    columns |= {"rationale": task.rationale, "validation": rows.validation_file}
    record = RunRecord.new(
        "finetune",
        recipe={"task": task.name, **columns, **settings.to_dict()},
        model=model_identity(model),
        data={rows.task.name: sizes},
        seeds={"training": list(settings.seeds)},
        device=str(device),
    )
    return open_folder(record, out, found)


def _attempt(job: _Job, rows_at_once: int) -> Outcome:
    settings, task = job.settings, job.rows.task
    set_seed(job.seed)  # the head's weights, dropout
    started, method = time.perf_counter(), Method(settings.method)
    pooling = None if settings.pooling is None else Pooling(settings.pooling, settings.aspects)
    headed = load_with_head(job.name, task, settings.layers, pooling)
    model = headed.model
    check_losses(settings, task, model.config)
    is_response = task.kind is AnswerKind.RESPONSE
    if is_response and not model.config.is_encoder_decoder and not headed.tokenizer.chat_template:
        headed.tokenizer.chat_template = PLAIN_TEMPLATE  # stored with what learns it
    if task.rationale is not None:
        model.set_attn_implementation("eager")  # the others do not tell their weights
    if method in PROMPTED and job.is_first:  # cannot be merged: the base goes with them
        model.save_pretrained(job.out / "base")
        share(job.out / "base")
    encoded = _features(job, headed)
    before = _answers(job, headed, encoded.validation, model.to(job.device)) if is_response else None
    parameters = sum(p.numel() for p in model.parameters())
    model = apply_method(
        model,
        method,
        task.kind,
        fresh=headed.fresh,
        rank=settings.rank,
        virtual_tokens=settings.virtual_tokens,
    )
    headed = replace(headed, model=model)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    fitted, tokens = _fit(job, headed, encoded, rows_at_once, parameters)
    fitted = merged(fitted, method)
    answers = _answers(job, headed, encoded.validation, fitted)
    metrics = compute_metrics(task.kind, answers.predicted, answers.gold)
    if before is not None:
        metrics |= loss_changes(before.predicted, answers.predicted)
    if job.is_first:
        save_model_folder(fitted, headed.tokenizer, job.out)
    return Outcome(
        metrics=metrics,
        answers=tuple((str(p), str(g)) for p, g in zip(answers.predicted, answers.gold, strict=True)),
        seconds=time.perf_counter() - started,
        memory=peak_mib(job.device),
        trained=trained,
        parameters=parameters,
        tokens=tokens,
        notes=encoded.notes,
    )


def _fit(job: _Job, headed: Headed, encoded: _Encoded, rows: int, parameters: int) -> tuple[Any, int]:
    """The model, trained from the last checkpoint on, and the tokens that it read."""
    settings, task = job.settings, job.rows.task
    pad = padding_id(headed.tokenizer, headed.model.config)
    training, validation = encoded.training, encoded.validation
    loss, folder, meter = _loss(settings, task, training), job.folder, Meter()
    if settings.method != Method.FULL:
        batch = collate(training[:2], pad)
        try_one_step(
            headed.model,
            Method(settings.method),
            task.kind,
            lambda: loss(headed.model, batch, one_by_one=headed.one_by_one)[0],
        )
    watch = Watch(lambda asked: _answers(job, headed, validation, asked), task, settings.patience)
    log = ProgressLog(job.log, meter, show=_shows(job), report=job.report)
    trainer = HeadTrainer(
        headed=headed,
        loss=loss,
        meter=meter,
        watch=watch,
        model=headed.model,
        args=fine_arguments(settings, job.seed, folder, job.device, rows, parameters),
        train_dataset=FeatureRows(training),
        data_collator=partial(collate, pad=pad, left=pads_left(headed.model, headed.tokenizer, task)),
        callbacks=[watch, log],
    )
    trainer.remove_callback(PrinterCallback)
    discard_broken_checkpoints(folder)
    try:
        trainer.go_on(next((c.path for c in reversed(find_checkpoints(folder))), None))
    finally:
        log.close()
    watch.restore(trainer.model)
    return trainer.model, meter.tokens


def _answers(job: _Job, headed: Headed, features: list[Features], model: Any) -> Answers:
    """What ``model`` says about the validation rows."""
    task = job.rows.task
    return predict(model, headed.tokenizer, features, job.rows.validation, task, job.settings.batch_size)


@dataclass(frozen=True)
class _Encoded:
    """Rows as inputs that the model takes, and how many conversations of each were cut, if any."""

    training: list[Features]
    validation: list[Features]
    notes: dict[str, Any]


def _features(job: _Job, headed: Headed) -> _Encoded:
    settings, model = job.settings, headed.model
    length = longest_input(model, headed.tokenizer)
    if settings.method in PROMPTED:
        length -= settings.virtual_tokens
    length = min(settings.length, length)
    task, two_sided = job.rows.task, model.config.is_encoder_decoder
    training = encode(job.rows.train, task, headed.tokenizer, length, two_sided=two_sided)
    held = replace(task, rationale=None)
    validation = encode(job.rows.validation, held, headed.tokenizer, length, two_sided=two_sided)
    cut = _say_cut({"training": training, "validation": validation}, length, show=job.is_first)
    if settings.packing:
        check_packs(model)
        training = pack(training, length)
    return _Encoded(
        _accepted(training, model), _accepted(validation, model), {"truncated": cut} if cut else {}
    )


def _say_cut(encoded: dict[str, list[Features]], length: int, *, show: bool) -> dict[str, int]:
    """Conversations that lost tokens, where there are any; other rows are truncated without being counted."""
    found = {what: sum(row.get("cut", 0) > 0 for row in rows) for what, rows in encoded.items()}
    for what, cut in found.items():
        if cut and show:
            size = len(encoded[what])
            say(f"{cut:,} of {size:,} {what} rows are longer than {length} tokens and were cut", error=True)
    return found if any(found.values()) else {}


def _accepted(features: list[Features], model: Any) -> list[Features]:
    accepted = {*inspect.signature(model.forward).parameters, "offsets", "marked"}
    return [{k: v for k, v in f.items() if k in accepted} for f in features]


def _loss(settings: FineSettings, task: FineTask, training: list[Features]) -> HeadLoss:
    return HeadLoss(
        weights=class_weights(task, training) if settings.class_weights else None,
        mixup=settings.mixup,
        rationale=settings.rationale_weight,
        smoothing=settings.label_smoothing,
    )


def _shows(job: _Job) -> bool:
    return job.show and shows_progress()
