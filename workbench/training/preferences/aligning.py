"""Training on preferences or rewards: a model, pairs, a method, one or more seeds."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed
from transformers.trainer_callback import PrinterCallback

from workbench.errors import ConfigError, WorkbenchError
from workbench.models import LoadedModel
from workbench.models.batching import padding_id
from workbench.models.device import resolve_device
from workbench.records import settings_of, takes_fields_of
from workbench.runs import Run, RunFolder, RunRecord, default_root
from workbench.runs.trackers import LiveReport, check_trackers, report_run
from workbench.scoring import Reward, find_reward
from workbench.terminal import shows_progress
from workbench.training._outcome import Outcome, peak_mib
from workbench.training._seeds import metrics_over_seeds, open_folder, run_seed, seed_notes, throughput
from workbench.training.checkpoints import (
    claim_folder,
    discard_broken_checkpoints,
    find_checkpoints,
    has_progress,
    save_model_folder,
)
from workbench.training.finetuning.heads import Pooling, load_with_head
from workbench.training.origin import folder_of, longest_input, model_identity
from workbench.training.preferences.ensemble import MEMBERS, joined
from workbench.training.preferences.frontier import Frontier
from workbench.training.preferences.job import AlignJob, Measured, PreparedTrainer, Subject
from workbench.training.preferences.libraries import silent
from workbench.training.preferences.pairs import Data, PreferenceRows
from workbench.training.preferences.prompts import load_rows
from workbench.training.preferences.reference import REWARD, load_policy
from workbench.training.preferences.settings import ONLINE, AlignMethod, AlignSettings
from workbench.training.progress import ProgressLog

__all__ = ["align", "default_folder", "preparer_of", "subject_of"]

_SHORT_OF_MEMORY = "shorten --length, or use --lora or --gradient-checkpointing"  # what helps
_LONGEST = 1024  # tokens of a pair, where the settings name no length


@takes_fields_of(AlignSettings)
def align(
    model: LoadedModel | str,
    data: PreferenceRows | Data | None = None,
    out: Path | str | None = None,
    settings: AlignSettings | None = None,
    *,
    data_dir: Path | str | None = None,
    split: str | None = None,
    validation: Data | None = None,
    limit: int | None = None,
    reference: LoadedModel | str | None = None,
    reward: Reward | str | None = None,
    gold_reward: Reward | str | None = None,
    resume: bool = False,
    device: str = "auto",
    progress: bool = False,
    report_to: Sequence[str] = (),
    **options: Any,
) -> Run:
    """Train a model on preferences and store it in ``out``, with its run.

    The results are of held-out pairs: the share in which the chosen reply has the higher score, with its interval, and
    the margin of the scores. ``examples`` has each pair with both scores. With several seeds, ``out`` holds the model
    of the first, ``results`` the mean over seeds with an interval that has the error of the items and of the seeds.
    ``log.jsonl`` is the first seed's curve, ``log-seedN.jsonl`` that of another.

    Args:
        model: a name as :func:`workbench.load` takes it, or a model loaded from files, which stays as it is.
        data: pairs by name, table or rows, as :func:`~workbench.data.preferences.read_preferences` takes them; for
            rloo and grpo prompts, of which a table with a column ``prompt`` is enough; or "planted", the model's own
            replies, of which one with an exclamation mark is preferred.
        out: the folder that gets the model; by default ``runs/MODEL-DATA-METHOD``.
        settings: the recipe; or name its fields as keywords.
        data_dir, split, validation, limit: of :func:`~workbench.training.preferences.pairs.load_pairs`.
        reference: the model that the policy is held to; by default the policy as it was.
        reward: what scores the replies of rloo and grpo, or its name (:func:`workbench.scoring.find_reward`); one that
            brings prompts (a suite's) needs no data.
        gold_reward: a second reward that is logged and never learned from, to see over-optimisation.
        resume: go on with a run that was stopped, from the seeds that are done and the last checkpoint, to the same
            result; where nothing is there it starts.
        device: "auto", "cpu", "cuda" or "mps".
        progress: print the loss, and show a bar.
        report_to: trackers ("tensorboard", "wandb", "mlflow") that get the curves as it trains, and the results.
        **options: fields of :class:`AlignSettings`, such as ``method="dpo"``.

    Raises the package's errors for bad data, methods or models, a loss that is no number, a full disk, a run of other
    settings.

    Example:
        ```python
        import workbench

        rows = [{"prompt": f"He had {n} dogs", "chosen": " and was happy.", "rejected": "."} for n in range(12)]
        run = workbench.align("novels-decoder", rows, "happy", method="dpo")
        print(run.to_frame())
        ```
    """
    settings = settings_of(AlignSettings, settings, options)
    name = model if isinstance(model, str) else folder_of(model)
    other = reference if isinstance(reference, str | None) else folder_of(reference)
    judge, gold = (None if one is None else find_reward(one) for one in (reward, gold_reward))
    rows = data
    if not isinstance(rows, PreferenceRows):
        taken: dict[str, Any] = {"writer": name, "split": split, "validation": validation, "limit": limit}
        rows = load_rows(rows, settings, judge, data_dir=data_dir, **taken)
    where = Path(out) if out is not None else default_folder(name, rows, settings)
    trackers, placed = check_trackers(report_to), resolve_device(device)
    found = claim_folder(where, "align", resume=resume)
    names = {"reward": _named(judge), "gold_reward": _named(gold)}
    folder = _open_run(name, rows, where, settings, placed, other, names, found)
    if folder.complete:
        run = Run.open(where.resolve())
        report_run(run, trackers)
        return run
    try:
        with closing(LiveReport(trackers, folder.record, folder.path)) as report:
            job = AlignJob(
                name, rows, settings, settings.seeds[0], where, placed, progress, report, other, judge, gold
            )
            return _trained_run(job, folder)
    except WorkbenchError:
        # With nothing but the recipe in it, the next try finds the folder free.
        if not (folder.complete or has_progress(where)):
            folder.remove()
        raise


def default_folder(model: str, rows: PreferenceRows, settings: AlignSettings) -> Path:
    """The default folder of a trained model: ``runs/MODEL-DATA-METHOD``."""
    return default_root() / f"{Path(model).name}-{rows.name}-{settings.method}"


def _named(reward: Reward | None) -> str | None:
    return None if reward is None else reward.name


def _open_run(
    model: str,
    rows: PreferenceRows,
    out: Path,
    settings: AlignSettings,
    device: torch.device,
    reference: str | None,
    rewards: dict[str, str | None],
    found: Run | None,
) -> RunFolder:
    """A new run in ``out``, or the one ``found`` there; raises :class:`~workbench.errors.RunError` if it is another."""
    sizes = {"train": len(rows.train), "validation": len(rows.validation), "sha256": rows.sha256}
    record = RunRecord.new(
        "align",
        recipe={"data": rows.name, "reference": reference, **rewards, **settings.to_dict()},
        model=model_identity(model),
        data={rows.name: sizes},
        seeds={"training": list(settings.seeds)},
        device=str(device),
    )
    return open_folder(record, out, found)


def _trained_run(job: AlignJob, folder: RunFolder) -> Run:
    """Train every seed, and store what came of them."""
    with silent():
        jobs = [replace(job, seed=seed) for seed in job.settings.seeds]
        outcomes = [run_seed(one, partial(_attempt, one), _SHORT_OF_MEMORY) for one in jobs]
    measured = _over_seeds(job, outcomes)
    done = folder.finished_ids()
    folder.append([row for row in measured.rows if row["id"] not in done])
    if rows := measured.notes.get("frontier"):
        figure = Frontier(tuple(rows), measured.notes["reward"]).figure()
        folder.save_figure("frontier.html", figure.html.encode())
    folder.finish({job.rows.name: measured.metrics}, throughput(outcomes), measured.notes)
    shutil.rmtree(job.out / "seeds", ignore_errors=True)
    run = Run.open(job.out.resolve())
    job.report.finish(run)
    return run


def _attempt(job: AlignJob, rows: int) -> Outcome:
    set_seed(job.seed)  # the head's weights
    started, subject = time.perf_counter(), subject_of(job, rows)
    parameters = subject.parameters
    prepared = preparer_of(job.settings.method)(job, subject)
    model = prepared.trainer.model
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    _fit(job, subject, prepared)
    if job.settings.lora:
        model = model.merge_and_unload()
    measured = prepared.measure(model)
    if job.is_first:
        save_model_folder(model, subject.tokenizer, job.out)
    elif job.settings.method is AlignMethod.REWARD:
        save_model_folder(model, subject.tokenizer, job.out / MEMBERS / f"seed-{job.seed}")
    return Outcome(
        metrics=measured.metrics,
        answers=measured.rows,
        seconds=time.perf_counter() - started,
        memory=peak_mib(job.device),
        trained=trained,
        parameters=parameters,
        tokens=subject.meter.tokens,
        notes=measured.notes,
    )


def preparer_of(method: AlignMethod) -> Callable[[AlignJob, Subject], PreparedTrainer]:
    """The function that makes a method's trainer."""
    from workbench.training.preferences.dpo import prepare_dpo
    from workbench.training.preferences.kto import prepare_kto
    from workbench.training.preferences.reward_model import prepare_reward

    if method in ONLINE:
        from workbench.training.preferences.online import prepare_grpo, prepare_rloo

        return prepare_rloo if method is AlignMethod.RLOO else prepare_grpo
    made = {AlignMethod.REWARD: prepare_reward, AlignMethod.DPO: prepare_dpo, AlignMethod.KTO: prepare_kto}
    return made[method]


def subject_of(job: AlignJob, rows: int) -> Subject:
    """The model to train, on its device.

    Raises :class:`~workbench.errors.ConfigError` for a length beyond the model's, and
    :class:`~workbench.errors.ModelError` for a policy that does not go on with texts.
    """
    if job.settings.method is AlignMethod.REWARD:
        pooling = None if job.settings.pooling is None else Pooling(job.settings.pooling)
        headed = load_with_head(job.name, REWARD, pooling=pooling)
    else:
        headed = load_policy(job.name, job.settings.method)
    longest = longest_input(headed.model, headed.tokenizer)
    wanted = job.settings.length
    if wanted is not None and wanted > longest:
        raise ConfigError(
            f"length is {wanted}; allowed: 2 to {longest}, the most tokens that {job.name} reads"
        )
    return Subject(
        model=headed.model.to(job.device),
        tokenizer=headed.tokenizer,
        fresh=headed.fresh,
        pad=padding_id(headed.tokenizer, headed.model.config),
        length=wanted or min(longest, _LONGEST),
        rows=rows,
    )


def _fit(job: AlignJob, subject: Subject, prepared: PreparedTrainer) -> None:
    """Train from the last checkpoint on."""
    trainer, log = (
        prepared.trainer,
        ProgressLog(job.log, subject.meter, show=job.show and shows_progress(), report=job.report),
    )
    trainer.add_callback(log)
    trainer.remove_callback(PrinterCallback)
    discard_broken_checkpoints(job.folder)
    last = next((c.path for c in reversed(find_checkpoints(job.folder))), None)
    try:
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    finally:
        log.close()


def _over_seeds(job: AlignJob, outcomes: Sequence[Outcome]) -> Measured:
    """One seed's own results; of several, means with the error of the items and that of the seeds.

    Reward models of several seeds are also measured together.
    """
    left_out = {"left_out": job.rows.left_out} if job.rows.left_out else {}
    notes = {**left_out, **seed_notes(job.settings, outcomes, job.out)}
    first = Measured(metrics_over_seeds(outcomes), outcomes[0].answers, notes)
    if len(outcomes) == 1 or job.settings.method is not AlignMethod.REWARD:
        return first
    together = joined([Measured(o.metrics, o.answers) for o in outcomes])
    return Measured({**first.metrics, **together.metrics}, together.rows, {**first.notes, **together.notes})
