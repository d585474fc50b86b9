"""A check in one call, of a set or suite: ``workbench.check``; the runner is that of ``workbench.evaluate``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pandas as pd

from challenge_sets.readers.generic import read_columns
from challenge_sets.sets.base import QuestionSet
from challenge_sets.sets.own import is_own_set, own_set
from challenge_sets.suite import REWRITES, load_suites, suite_names
from challenge_sets.suites.predict import PredictionFile
from challenge_sets.suites.suite_set import SuiteSet, suite_set
from challenge_sets.suites.tests import Suite
from challenge_sets.tasks import set_names
from workbench.data import check_ids
from workbench.data.tables import is_table
from workbench.errors import DataError, TaskError, UnknownName, WorkbenchError
from workbench.evaluate import (
    Outcome,
    TaskData,
    TaskOptions,
    Work,
    find_task,
    run_tasks,
    with_options,
)
from workbench.evaluate.inference import InferenceOptions
from workbench.models import LoadedModel, TextFunction, prompted
from workbench.records import settings_of, takes_fields_of
from workbench.runs import Run, RunRecord

__all__ = ["IN_RECIPE", "check", "check_predictions", "find_set", "find_suites"]

IN_RECIPE = (
    "data_dir",
    "limit",
    "limit_per_paradigm",
    "convention",
    "reduction",
    "masking",
    "seed",
    "chat",
    "system",
    "special_tokens",
)


@takes_fields_of(TaskOptions)
def check(
    model: LoadedModel | TextFunction | PredictionFile | str | Callable[..., Any],
    challenge: QuestionSet | Suite | str,
    settings: TaskOptions | None = None,
    *,
    out: Path | str | None = None,
    resume: Path | str | None = None,
    batch_tokens: str | int = "auto",
    doctor: bool = True,
    progress: bool = False,
    **options: Any,
) -> Run:
    """Check a model on a challenge set or a suite of behavioural tests, and store the run.

    Args:
        model: a loaded model or its name; for a suite also a file of predictions, or a function from texts to
            probabilities with its labels (:func:`workbench.wrap`).
        challenge: the name of a set ("blimp", "pairs_builtin", ...) or suite ("sentiment"), the file of a suite or
            of a set (:func:`challenge_sets.own_set`), a set or a suite.
        settings: the options; or name them as keywords.
        out: the folder that gets the run folder; ``runs/`` by default.
        resume: the folder of a run that was cut short.
        batch_tokens: tokens of one forward pass, padding included.
        doctor: examine the model first, and store the verdict.
        progress: show a bar.
        **options: fields of :class:`~workbench.evaluate.TaskOptions`, such as ``limit=40`` or
            ``convention="lm-eval"``.

    Raises:
        TaskError: an unknown set or suite, or an option that it does not take.
        ModelError: the set does not go with this kind of model.
        DataError: unreadable data.

    Example:
        ```python
        import workbench

        run = workbench.check("novels-decoder", "pairs_builtin", limit=40)
        print(run.to_frame())
        ```
    """
    task = _chosen(challenge, settings_of(TaskOptions, settings, options) if settings or options else None)
    subject: Any = model if isinstance(model, PredictionFile) else prompted(model, task.options)
    if not isinstance(subject, PredictionFile):
        subject.require(*task.kinds, verb=f"set {task.name}")
    data = task.load(None)
    check_ids([item.id for item in data.items], f"set {task.name}")
    if isinstance(subject, PredictionFile):
        if not isinstance(task, SuiteSet):
            raise TaskError(f"set {task.name} needs a model; predictions in a file are judged by suites")
        subject.check([example for item in data.items for example in item.fields["item"].examples()])
    policy = task.policy(subject)

    def outcome(rows: pd.DataFrame) -> Outcome:
        in_order = rows.set_index("id", drop=False).loc[[item.id for item in data.items]]
        return task.results(in_order), {"policy": policy, **task.notes(in_order)}, _order(in_order)

    return run_tasks(
        subject,
        [[Work(task, item, {"id": item.id}) for item in data.items]],
        InferenceOptions(batch_tokens=batch_tokens, progress=progress),
        _record(subject, task, data, policy),
        outcome,
        out=out,
        resume=resume,
        doctor=doctor,
    )


def check_predictions(
    path: Path, challenge: SuiteSet, *, out: Path | None = None, resume: Path | None = None
) -> Run:
    """Judge the predictions in a JSONL file; see :class:`PredictionFile` for its form."""
    return check(
        PredictionFile.read(path, challenge.read(challenge.options)), challenge, out=out, resume=resume
    )


def find_set(name: str, options: TaskOptions | None = None, columns: str | None = None) -> QuestionSet:
    """The challenge set called ``name``, or in that file: a table, of which ``columns`` binds the columns to roles, or
    the file of a published set.

    Raises :class:`~workbench.errors.UnknownName` with the nearest names, and as
    :func:`~challenge_sets.sets.own.own_set` and :func:`~challenge_sets.readers.generic.read_columns` do.
    """
    names = set_names()
    if name not in names and (is_table(name) or is_own_set(name)):
        if options is not None and options.data_dir is not None:
            raise TaskError(
                f"--data-dir holds the files of a published set; {name} is a file itself: leave it out"
            )
        try:
            found = own_set(name, columns=read_columns(columns))
        except DataError:
            published = None if columns else _published(name, options or TaskOptions())
            if published is None:
                raise
            return published
        return with_options(replace(found, file=name, bound_columns=columns), options or TaskOptions())
    if columns:
        raise TaskError(f"--columns binds the columns of a file; set {name} has its own: leave it out")
    if name not in names:
        raise UnknownName("challenge set", name, names)
    return cast(QuestionSet, find_task(name, options))


def _published(file: str, options: TaskOptions) -> QuestionSet | None:
    """The published set that is in ``file``, under whatever name: the only one that can read it."""
    found = []
    for name in set_names():
        with suppress(WorkbenchError):
            one = cast(QuestionSet, find_task(name, replace(options, data_dir=file)))
            if one.files and one.items().items:
                found.append(one)
    return found[0] if len(found) == 1 else None


def find_suites(name: str, options: TaskOptions | None = None) -> SuiteSet:
    """What :func:`~challenge_sets.suite.load_suites` finds under ``name``, as one set."""
    options = options or TaskOptions()
    place = Path(options.data_dir) if options.data_dir and name.startswith(REWRITES) else None
    found = with_options(suite_set(load_suites(name, place), name), options)
    return replace(found, version=found.version + 1) if name.startswith(REWRITES) else found


def _chosen(challenge: QuestionSet | Suite | str, options: TaskOptions | None) -> QuestionSet:
    """The set with ``options``; one that is given as an object keeps its own without."""
    if isinstance(challenge, Suite):
        challenge = suite_set((challenge,))
    if not isinstance(challenge, str):
        return challenge if options is None else with_options(challenge, options)
    names = set_names()
    if challenge in names or is_own_set(challenge):
        return find_set(challenge, options)
    try:
        return find_suites(challenge, options)
    except UnknownName:
        known = [*names, *suite_names()]
        raise UnknownName("set or suite", challenge, known, "or give a suite's file or folder") from None


def _record(subject: Any, task: QuestionSet, data: TaskData, policy: str) -> RunRecord:
    identity, options = subject.identity(), asdict(task.options)
    named = task.named if isinstance(task, SuiteSet) else None
    recipe = {
        # a suite in a file goes by the name that it gives itself
        "set": named if named and not Path(named).is_file() else task.name,
        "suite": named,
        **({} if task.file is None else {"file": task.file, "columns": task.bound_columns}),
        **{name: options[name] for name in IN_RECIPE},
    }
    return RunRecord.new(
        "check",
        recipe={**recipe, "version": task.version, "policy": policy},
        model=identity,
        data={task.name: asdict(data.identity)},
        seeds={"sampling": task.options.seed},
        device=str(subject.device),
        label=f"{Path(identity['name']).stem}-{task.name}",
    )


def _order(rows: pd.DataFrame) -> list[str]:
    """Ids: failing examples first, the worst of them first, then the others as they are in the data."""
    items: list[str] = rows["id"].tolist()
    if "correct" not in rows or "margin" not in rows:
        return items
    failing = rows[rows["correct"].eq(False)].sort_values("margin", kind="stable")["id"].tolist()
    first = set(failing)
    return [*failing, *(name for name in items if name not in first)]
