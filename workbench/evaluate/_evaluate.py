"""An evaluation in one call: from names and options to tasks and items, and what their rows come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import pandas as pd

from workbench.data import check_ids, spread
from workbench.data.source import MissingData
from workbench.errors import ModelError, TaskError
from workbench.estimate import Estimate
from workbench.evaluate._names import expand, find_task, with_options
from workbench.evaluate._options import TaskOptions
from workbench.evaluate._requests import as_replies
from workbench.evaluate._runner import Outcome, run_tasks
from workbench.evaluate._settings import EvaluateSettings
from workbench.evaluate._summaries import summarize
from workbench.evaluate._task import RequestTask, RowTask, Task, TaskData, TaskItem, Work
from workbench.evaluate.inference import InferenceOptions
from workbench.evaluate.tasks.task_file import own_task
from workbench.models import Kind, LoadedModel, TextFunction, prompted
from workbench.records import settings_of, takes_fields_of
from workbench.runs import Run, RunRecord
from workbench.scoring import resolve_first_token

__all__ = ["evaluate", "read_data"]

_SUBJECT = "subject"
Tasks: TypeAlias = "str | Task | pd.DataFrame | Sequence[str | Task | Mapping[str, Any]] | None"


@takes_fields_of(EvaluateSettings)
def evaluate(
    model: LoadedModel | TextFunction | str | Callable[..., Any],
    settings: EvaluateSettings | None = None,
    *,
    tasks: Tasks = None,
    data: Mapping[str, TaskData] | None = None,
    out: Path | str | None = None,
    resume: Path | str | None = None,
    batch_tokens: str | int = "auto",
    doctor: bool = True,
    progress: bool = False,
    **options: Any,
) -> Run:
    """Evaluate a model on tasks and store the run.

    Finished examples are stored as they come, so that a run that was killed can be resumed.

    Args:
        model: a loaded model, or a name as :func:`workbench.load` takes it; for text classification also a
            function from texts to probabilities with its labels (:func:`workbench.wrap`).
        settings: the recipe; or name ``tasks`` and its other fields as keywords.
        tasks: a name, names, or tasks of your own, which need not be registered; a DataFrame, or rows as mappings,
            is the task that its columns make it (:func:`own_task`).
        data: what :func:`read_data` gave, if it was called already.
        out: the folder that gets the run folder; ``runs/`` by default.
        resume: the folder of an interrupted run, which then ends with the numbers it would have had.
        batch_tokens: tokens of one forward pass, padding included.
        doctor: examine the model first, and store the verdict.
        progress: show a bar.
        **options: fields of :class:`EvaluateSettings`, such as ``limit=20``.

    Raises:
        TaskError: an unknown task, or one that does not go with this kind of model.
        DataError: unreadable data.
        NumericsError: the model gives NaN.

    Example:
        ```python
        import workbench

        run = workbench.evaluate("novels-decoder", tasks="lambada_sample", limit=20)
        print(run.to_frame())
        ```
    """
    settings, own = _chosen(settings, tasks, options)
    data = data or (
        read_data(settings) if own is None else {task.name: task.load(settings.folder) for task in own}
    )
    chosen = [find_task(name, settings.options) for name in data] if own is None else own
    subject = prompted(model, settings)
    for task in chosen:
        _require(subject, task)
        _refuse_policy(settings, task)
        check_ids([item.id for item in data[task.name].items], f"task {task.name}")
    inference = InferenceOptions(
        settings.first_token, batch_tokens, progress, settings.seed, settings.boundary, settings.keep_bos
    )
    work = [_work(subject, settings, task, _within_limit(data[task.name], settings)) for task in chosen]
    ids = [w.id for of_task in work for w in of_task]

    def outcome(rows: pd.DataFrame) -> Outcome:
        return *_results_and_notes(subject, settings, chosen, data, inference, rows), ids

    record = _record(subject, settings, chosen, data, inference)
    return run_tasks(subject, work, inference, record, outcome, out=out, resume=resume, doctor=doctor)


def _chosen(
    settings: EvaluateSettings | None,
    tasks: Tasks,
    options: Mapping[str, Any],
) -> tuple[EvaluateSettings, list[Task] | None]:
    """The recipe, and the tasks themselves where any is not just a name."""
    given = _listed(tasks)
    names = tuple(task if isinstance(task, str) else task.name for task in given)
    recipe = settings_of(EvaluateSettings, settings, options if settings else {"tasks": names, **options})
    if all(isinstance(task, str) for task in given):
        return (replace(recipe, tasks=names) if names else recipe), None
    found = []
    for task in given:
        if isinstance(task, str):
            found += [find_task(name, recipe.options) for name in expand([task])]
        else:
            found.append(with_options(task, recipe.options) if recipe.options != TaskOptions() else task)
    names = tuple(task.name for task in found)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TaskError(
            f"two tasks are called {twice!r}; name tables with workbench.evaluate.own_task(rows, name)"
        )
    return recipe, found


def _listed(tasks: Any) -> list[str | Task]:
    """Names and tasks; a table in memory, or its rows, as the task of its columns (:func:`own_task`)."""
    if tasks is None:
        return []
    if isinstance(tasks, str) or hasattr(tasks, "load"):
        return [tasks]
    if (
        hasattr(tasks, "columns")
        or hasattr(tasks, "column_names")
        or any(isinstance(t, Mapping) for t in tasks)
    ):
        return [own_task(tasks)]
    # sets of pairs have columns too, and are tasks
    return [own_task(one) if hasattr(one, "columns") and not hasattr(one, "load") else one for one in tasks]


def _within_limit(data: TaskData, settings: EvaluateSettings) -> list[TaskItem]:
    """The items to score: with a limit the first ones, of a task with subjects some of every subject."""
    kept = spread([item.fields.get(_SUBJECT) for item in data.items], settings.limit, settings.seed)
    return [data.items[position] for position in kept]


def _results_and_notes(
    model: Any,
    settings: EvaluateSettings,
    tasks: Sequence[Task],
    data: Mapping[str, TaskData],
    inference: InferenceOptions,
    examples: pd.DataFrame,
) -> tuple[dict[str, dict[str, Estimate]], dict[str, Any]]:
    """Metrics over the rows of all tasks, and what a reader of them should know."""
    results: dict[str, dict[str, Estimate]] = {}
    for task in tasks:
        results |= _results(task, _rows_of(examples, task.name), settings.seed)
    results |= summarize(settings.tasks, results)
    of_sets = {
        task.name: {
            "policy": task.policy(model),
            **task.notes(_rows_of(examples, task.name).infer_objects()),
        }
        for task in tasks
        if isinstance(task, RowTask)
    }
    by_request = examples[~examples["task"].isin(of_sets)]
    notes = _notes(model, inference, settings, data, by_request)
    said = {
        task.name: task.remarks(_rows_of(examples, task.name)) for task in tasks if hasattr(task, "remarks")
    }
    notes |= {"remarks": found} if (found := {name: lines for name, lines in said.items() if lines}) else {}
    return results, {**notes, "sets": of_sets} if of_sets else notes


def _results(task: Task, rows: pd.DataFrame, seed: int) -> dict[str, dict[str, Estimate]]:
    if isinstance(task, RowTask):
        return task.results(rows.infer_objects())
    return {task.name: cast(RequestTask, task).metrics(rows, seed)}


def _require(model: LoadedModel | TextFunction, task: Task) -> None:
    try:
        model.require(*task.kinds, verb=f"task {task.name}")
    except ModelError as error:
        hint = "; give it a head: --finetune" if Kind.CLASSIFIER in task.kinds else ""
        raise TaskError(f"{error}{hint}") from None


def _refuse_policy(settings: EvaluateSettings, task: Task) -> None:
    """Sets score by their convention; options of the scorer that they would not follow are refused."""
    for name in ("first_token", "boundary", "keep_bos"):
        if isinstance(task, RowTask) and getattr(settings, name) != getattr(EvaluateSettings, name):
            raise TaskError(
                f"--{name.replace('_', '-')} does not go with challenge sets, such as {task.name}, which are scored by "
                "their --convention; leave it out"
            )


def _work(model: Any, settings: EvaluateSettings, task: Task, items: Sequence[TaskItem]) -> list[Work]:
    # ids of one set are its own; those of other tasks begin with the task's name already
    before = f"{task.name}/" if isinstance(task, RowTask) else ""
    work = []
    for item in items:
        requests = item.requests_for(model.kind)
        written = as_replies(requests) if settings.chat else requests
        work.append(Work(task, item, {"id": f"{before}{item.id}", "task": task.name}, written))
    return work


def _rows_of(examples: pd.DataFrame, task: str) -> pd.DataFrame:
    """The rows of one task, without the columns that only other tasks have."""
    return examples[examples["task"] == task].dropna(axis=1, how="all").reset_index(drop=True)


def _policy(model: LoadedModel | TextFunction, inference: InferenceOptions) -> str:
    """What the first token of a text is predicted from; empty for models that predict none."""
    if not isinstance(model, LoadedModel) or model.kind is not Kind.CAUSAL:
        return ""
    return str(resolve_first_token(model, inference.first_token))


def _notes(
    model: LoadedModel | TextFunction,
    inference: InferenceOptions,
    settings: EvaluateSettings,
    data: Mapping[str, TaskData],
    examples: pd.DataFrame,
) -> dict[str, Any]:
    notes: dict[str, Any] = {"first_token": _policy(model, inference)}
    left_out = [name for name in expand([n for n in settings.tasks if n not in data]) if name not in data]
    if left_out:
        notes["left_out_for_want_of_data"] = left_out
    if "truncated" in examples:
        notes["truncated"] = int((examples["truncated"] > 0).sum())
    if "inside_token" in examples:
        inside = examples[examples["inside_token"] == True]  # noqa: E712
        notes["begin_inside_a_token"] = {name: len(rows) for name, rows in inside.groupby("task")}
    if "finished" in examples:
        notes["ended_by_the_limit_of_tokens"] = int((examples["finished"] == False).sum())  # noqa: E712
    if settings.limit is not None and _SUBJECT in examples:
        subjects = examples.dropna(subset=[_SUBJECT]).groupby("task")[_SUBJECT].nunique()
        notes["spread_over"] = {str(task): int(count) for task, count in subjects.items()}
    one_answer = _answered_alike(examples)
    if one_answer:
        notes["one_answer_throughout"] = one_answer
    shots = {name: dict(found.shots) for name, found in data.items() if found.shots}
    return {**notes, "few_shot_examples": shots} if shots else notes


def _answered_alike(examples: pd.DataFrame) -> dict[str, str]:
    """The tasks whose items, of several gold labels, all got one answer, and which."""
    if not {"prediction", "gold"} <= set(examples):
        return {}
    return {
        str(task): str(rows["predicted" if "predicted" in rows else "prediction"].iloc[0])
        for task, rows in examples.dropna(subset=["prediction", "gold"]).groupby("task", sort=False)
        if rows["prediction"].astype(str).nunique() == 1 < rows["gold"].astype(str).nunique()
    }


def read_data(settings: EvaluateSettings) -> dict[str, TaskData]:
    """The items of every task of ``settings``; raises for unknown tasks and unreadable files.

    Members of a group whose files are missing are left out, if another one's are there. It needs no model, so a
    caller that loads one can find out first.
    """
    data: dict[str, TaskData] = {}
    missing: MissingData | None = None
    for name in expand(settings.tasks):
        try:
            data[name] = find_task(name, settings.options).load(settings.folder)
        except MissingData as error:
            if name in settings.tasks:
                raise
            missing = error
    if not data and missing is not None:
        raise missing
    return data


def _record(
    model: LoadedModel | TextFunction,
    settings: EvaluateSettings,
    tasks: Sequence[Task],
    data: Mapping[str, TaskData],
    inference: InferenceOptions,
) -> RunRecord:
    return RunRecord.new(
        "evaluate",
        recipe={**settings.to_dict(), "versions": {task.name: task.version for task in tasks}},
        model={**model.identity(), "first_token": _policy(model, inference)},
        data={name: asdict(task_data.identity) for name, task_data in data.items()},
        seeds={"bootstrap": settings.seed},
        device=str(model.device),
        label="-".join([Path(model.name).name, *settings.tasks[:3]]).replace("/", "-"),
    )
