"""Pre-training: a recipe and a folder; transformers' Trainer and Accelerate run the loop."""

from __future__ import annotations

import errno
from contextlib import closing, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from safetensors import SafetensorError
from transformers.trainer_callback import PrinterCallback

from workbench.errors import ConfigError, RunError, WorkbenchError
from workbench.models.device import resolve_device
from workbench.pretrained import quiet
from workbench.runs import Run
from workbench.runs.trackers import LiveReport, check_trackers
from workbench.terminal import counted, say
from workbench.training._arguments import training_arguments
from workbench.training._measure import measure
from workbench.training._record import finish_run, open_run, training_flops
from workbench.training._work import TrainingWork, prepare
from workbench.training.checkpoints import (
    claim_folder,
    discard_broken_checkpoints,
    find_checkpoints,
    record_file,
    resume_point,
    save_model_folder,
)
from workbench.training.libraries import PartialState, should_reduce_batch_size
from workbench.training.loop import Clock, KeepSteps, StopWatch, WorkbenchTrainer, can_skip
from workbench.training.objectives import MASK_RATE
from workbench.training.pair_corpora import PairRows
from workbench.training.progress import Meter, ProgressLog, peak_flops
from workbench.training.settings import TrainSettings

__all__ = ["train"]


def train(
    settings: TrainSettings,
    out: Path,
    *,
    resume: bool | Path = False,
    device: str = "auto",
    progress: bool = False,
) -> Run:
    """Train a model by ``settings``; ``out`` becomes a run folder and a model folder in one.

    ``workbench.load(out)`` opens the result, and after ``import workbench.models.auto`` plain transformers do.
    ``resume`` continues from the last complete checkpoint, or a chosen one; from the start where there is none yet. A
    run that was stopped before its first checkpoint is replaced. Under ``torchrun`` all processes share
    the batch. Out of memory, the rows of a forward pass are halved and the batch kept.

    Raises the package's errors: a bad recipe, corpus or checkpoint, a loss that is no number, a full disk.

    Example:
        ```python
        from pathlib import Path

        from workbench.training.pretrain import train
        from workbench.training.settings import DataSource, ModelSource, Optimisation, TrainSettings

        Path("corpus.txt").write_text("The cat sat on the mat, and the dog sat beside it. " * 400)
        source = DataSource(corpus="corpus.txt", tokenizer="byte-bpe", vocab_size=300, length=32)
        settings = TrainSettings(
            model=ModelSource(preset="llama-tiny"), data=source, optimisation=Optimisation(steps=3, batch_size=4)
        )
        print(train(settings, Path("model")))
        ```
    """
    where, trackers = resolve_device(device), check_trackers(_trackers(settings.loop.report_to))
    state = PartialState(cpu=where.type == "cpu")
    show = progress and state.is_main_process
    found = claim_folder(out, "train", resume=bool(resume)) if state.is_main_process else None
    state.wait_for_everyone()
    if resume and (out / "results.json").is_file():
        return Run.open(out.resolve())
    with state.main_process_first():
        work = prepare(settings, where, show=show)
    folder, start, report = None, None, None
    if resume and record_file(out).is_file():
        start = _start(out, work, resume if isinstance(resume, Path) else None)
    state.wait_for_everyone()
    if state.is_main_process:
        _say_truncated(work)
        folder = open_run(out, settings, work.corpora, work.new_model(), str(where), found)
        discard_broken_checkpoints(out)
        report = LiveReport(trackers, folder.record, folder.path)
    state.wait_for_everyone()
    with quiet(), nullcontext() if report is None else closing(report):
        trainer = _run(work, out, start, report, show=show)
        state.wait_for_everyone()
        if folder is not None:
            model = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
            save_model_folder(model, work.corpora.tokenizer, out)
            of_text = work.objective.auto == "AutoModelForCausalLM"  # every token is scored
            results = measure(
                model,
                work.objective,
                work.validation,
                work.rows,
                tokenizer=work.corpora.tokenizer if of_text else None,
            )
            finish_run(folder, results, trainer.meter.to_dict())
        state.wait_for_everyone()
        if report is not None:
            report.finish(Run.open(out))
    return Run.open(out)


def _say_truncated(work: TrainingWork) -> None:
    """A note on pairs whose texts do not fit into a row; other corpora are divided into rows instead."""
    if isinstance(work.training, PairRows) and work.training.truncated:
        count = counted(work.training.truncated, "text")
        say(f"note: {count} of the pairs truncated to {work.length} tokens; see --length", error=True)


def _trackers(wanted: tuple[str, ...]) -> list[str]:
    """Where to report; to TensorBoard, the default, only if it is installed."""
    named = [name for name in wanted if name not in ("", "none")]
    return [name for name in named if name != "tensorboard" or find_spec(name) is not None]


def _start(out: Path, work: TrainingWork, chosen: Path | None) -> Path | None:
    """The checkpoint to go on from; nothing where a run was stopped before its first one."""
    if chosen is not None or any(not c.problem for c in find_checkpoints(out)):
        return resume_point(out, work.recipe, chosen).path
    stored = TrainSettings.from_dict(Run.open(out.resolve()).record.recipe).digest(*work.corpora.hashes)
    if stored != work.recipe:
        raise RunError(
            f"{out} has no whole checkpoint and was started with another recipe; "
            f"use the same settings ({out / 'recipe.yaml'}), or leave out --resume to start again"
        )
    return None


def _run(
    work: TrainingWork, out: Path, start: Path | None, report: LiveReport | None, *, show: bool
) -> WorkbenchTrainer:
    """Train; out of memory, halve the rows of a pass and begin again from the last whole checkpoint."""
    rows = work.rows
    while True:
        trainer, log = _trainer(replace(work, rows=rows), out, report, show=show)
        try:
            trainer.train(resume_from_checkpoint=None if start is None else str(start))
            return trainer
        except (RuntimeError, MemoryError, OSError, SafetensorError) as error:
            if not (isinstance(error, MemoryError) or should_reduce_batch_size(error)):
                raise _explained(error, out) from error
            if rows == 1:
                raise ConfigError(
                    "out of memory with one row at a time; shorten --length, or choose a smaller model"
                ) from error
        finally:
            log.close()
        rows = max(r for r in range(1, rows // 2 + 1) if rows % r == 0)
        say(f"out of memory: going on with {counted(rows, 'row')} at a time, the batch stays", error=True)
        whole = [c.path for c in find_checkpoints(out) if not c.problem and c.recipe == work.recipe]
        start = whole[-1] if whole else start


def _trainer(
    work: TrainingWork, out: Path, report: LiveReport | None, *, show: bool
) -> tuple[WorkbenchTrainer, ProgressLog]:
    settings, model = work.settings, work.new_model()
    arguments = training_arguments(
        out,
        settings.optimisation,
        settings.loop,
        rows=work.rows,
        device=work.device,
        has_validation=len(work.validation) > 0,
    )
    scored_only = can_skip(model, work.objective.auto) and not settings.loop.compile
    scored = (settings.objective.rate or MASK_RATE) if scored_only else 1.0
    meter = Meter(
        flops_per_token=training_flops(model, work.length, scored),
        peak=peak_flops(work.device, work.precision),
        processes=arguments.world_size,
    )
    clock = Clock(settings.loop.minutes) if settings.loop.minutes else None
    log = ProgressLog(out / "log.jsonl", meter, show=show, report=report)
    tokenizer = work.corpora.tokenizer
    keep = KeepSteps(
        settings.loop.keep_steps,
        lambda kept, step: save_model_folder(kept, tokenizer, out / f"step-{step}"),
    )
    trainer = WorkbenchTrainer(
        recipe=work.recipe,
        meter=meter,
        clock=clock,
        scored_only=scored_only,
        precision=work.precision,
        model=model,
        args=arguments,
        train_dataset=work.training,
        eval_dataset=work.validation,
        data_collator=work.objective,
        processing_class=tokenizer,
        callbacks=[StopWatch(clock), log, keep],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer, log


def _explained(error: Exception, out: Path) -> WorkbenchError | Exception:
    """A full disk as what it is; anything else as it came."""
    text = str(error)
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in text
    if full or "PytorchStreamWriter" in text or isinstance(error, SafetensorError):
        whole = [c.path for c in find_checkpoints(out) if not c.problem]
        kept = f"the last good checkpoint is {whole[-1]}" if whole else "no checkpoint was finished"
        return RunError(
            f"cannot write to {out}: the disk is full or failing; {kept}; free space, then --resume"
        )
    return error
