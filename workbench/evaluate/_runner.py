"""The runner: load the items, score what is not stored yet, store as it goes, compute the metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.evaluate._settings import Settings
from workbench.evaluate._task import Item, Task, TaskData
from workbench.evaluate.doctor import examine
from workbench.evaluate.tasks import TASKS
from workbench.models import LoadedModel
from workbench.runs import Run, RunFolder, RunRecord, default_root
from workbench.scoring import Engine, Score

__all__ = ["evaluate", "read_data"]

# Finished examples are stored at least this often.
_SECONDS_PER_CHUNK = 2.0


@dataclass(frozen=True)
class _Work:
    """One item of one task; ``id`` is that of its example row in the run."""

    id: str
    task: Task
    item: Item


def evaluate(
    model: LoadedModel,
    settings: Settings,
    *,
    data: Mapping[str, TaskData] | None = None,
    out: Path | None = None,
    resume: Path | None = None,
    batch_tokens: str | int = "auto",
    doctor: bool = True,
    progress: bool = False,
) -> Run:
    """Evaluate ``model`` on the tasks of ``settings`` and store the run under ``out`` (default: ``runs/``).

    Finished examples are stored as they come; ``resume`` names the folder of a run that was cut short, which
    then ends with the numbers it would have had. ``data`` is what :func:`read_data` gave, if it was called
    already. Raises :class:`~workbench.errors.TaskError` if a task
    cannot be asked of this kind of model, :class:`~workbench.errors.DataError` for unreadable data and
    :class:`~workbench.errors.NumericsError` if the model gives NaN.
    """
    tasks = [TASKS.get(name) for name in settings.tasks]
    for task in tasks:
        model.require(*task.kinds, verb=f"task {task.name}")
    data = data or read_data(settings)
    engine = Engine(model, settings.first_token, batch_tokens, progress)
    folder = _open_folder(model, settings, data, engine, out or default_root(), resume)
    if folder.complete:
        return Run.open(folder.path)
    if doctor and folder.record.doctor is None:
        folder.set_doctor(examine(model).to_dict())
    elif not doctor:
        folder.set_doctor({"verdict": "skipped", "checks": []})
    work = [_Work(i.id, task, i) for task in tasks for i in data[task.name].items[: settings.limit]]
    throughput = _score(engine, work, folder)
    examples = pd.DataFrame(folder.rows())
    results = {t.name: t.metrics(examples[examples["task"] == t.name], settings.seed) for t in tasks}
    notes = {"truncated": int((examples["truncated"] > 0).sum()), "first_token": str(engine.policy)}
    folder.finish(results, throughput, notes, order=[w.id for w in work])
    return Run.open(folder.path)


def read_data(settings: Settings) -> dict[str, TaskData]:
    """The items of every task of ``settings``; raises for unknown tasks and unreadable files.

    It needs no model, so a caller that loads one can find out first.
    """
    return {name: TASKS.get(name).load(settings.folder) for name in settings.tasks}


def _open_folder(
    model: LoadedModel,
    settings: Settings,
    data: Mapping[str, TaskData],
    engine: Engine,
    root: Path,
    resume: Path | None,
) -> RunFolder:
    recipe = {**settings.to_dict(), "versions": {name: TASKS.get(name).version for name in settings.tasks}}
    identity = {
        "name": model.name,
        "kind": str(model.kind),
        "implementation": model.implementation,
        "revision": model.revision,
        "dtype": str(model.dtype).removeprefix("torch."),
        "content_hash": model.content_hash,
        "parameters": model.num_parameters,
        "first_token": str(engine.policy),
    }
    sources = {name: asdict(task_data.identity) for name, task_data in data.items()}
    if resume is not None:
        return RunFolder.resume(resume, recipe, model=identity, data=sources)
    record = RunRecord.new(
        "evaluate",
        recipe=recipe,
        model=identity,
        data=sources,
        seeds={"bootstrap": settings.seed},
        device=str(model.device),
        label="-".join([Path(model.name).name, *settings.tasks[:3]]),
    )
    return RunFolder.create(root, record)


def _score(engine: Engine, work: Sequence[_Work], folder: RunFolder) -> dict[str, float]:
    """Score all unfinished items, storing example rows as they are complete; tokens and seconds of it."""
    finished = folder.finished_ids()
    owners = [(w, k) for w in work for k in range(len(w.item.requests))]
    done = {place for place, (w, _) in enumerate(owners) if w.id in finished}
    started = stored_at = time.perf_counter()
    pending: dict[str, dict[int, Score]] = {}
    rows: list[dict[str, Any]] = []
    tokens = 0
    sequences = engine.encode([w.item.requests[k] for w, k in owners])
    for batch in engine.stream_sequences(sequences, done):
        tokens += sum(sequence.length for sequence in {sequences[place] for place, _ in batch})
        for place, score in batch:
            w, k = owners[place]
            pending.setdefault(w.id, {})[k] = score
            if len(pending[w.id]) == len(w.item.requests) and w.id not in finished:
                rows.append(_row(w, pending.pop(w.id), engine))
        if time.perf_counter() - stored_at > _SECONDS_PER_CHUNK:
            folder.append(rows)
            rows, stored_at = [], time.perf_counter()
    folder.append(rows)
    seconds = time.perf_counter() - started
    return {"tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / max(seconds, 1e-9)}


def _row(work: _Work, scores: dict[int, Score], engine: Engine) -> dict[str, Any]:
    in_order = [scores[k] for k in range(len(scores))]
    return {
        "id": work.id,
        "task": work.task.name,
        **work.task.example(work.item, in_order, engine.model.tokenizer),
    }
