"""The runner of tasks and challenge sets: score what is not stored yet, store as it goes, compute the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, cast

import pandas as pd

from workbench.estimate import Estimate
from workbench.evaluate._task import RequestTask, RowTask, Work
from workbench.evaluate.doctor import self_check
from workbench.evaluate.inference import InferenceOptions, counted_tokens, stream_answers
from workbench.evaluate.processes import Processes
from workbench.models import LoadedModel
from workbench.runs import Run, RunFolder, RunRecord

__all__ = ["Outcome", "run_tasks"]

# results by group and metric, notes, and the ids of the rows in their order
Outcome = tuple[dict[str, dict[str, Estimate]], dict[str, Any], list[str]]

_BY_NAME = "resumed; that {name} still was the same function is not known, as only its name could be compared"


def run_tasks(
    model: Any,
    work: Sequence[Sequence[Work]],
    inference: InferenceOptions,
    record: RunRecord,
    outcome: Callable[[pd.DataFrame], Outcome],
    *,
    out: Path | str | None,
    resume: Path | str | None,
    doctor: bool,
) -> Run:
    """Score the ``work``, a list a task, in this process or its share of it in one of several, and store the run.

    ``model`` is a :class:`~workbench.models.LoadedModel`, or what else answers the tasks: stored predictions.
    ``outcome`` makes the results of all rows. The other parameters are those of :func:`evaluate`.
    """
    processes = Processes.current()
    folder = _shared_folder(processes, record, out, resume)
    if folder.complete:
        return Run.open(folder.path)
    if processes.rank == 0:
        folder.examine(self_check(model, doctor) if isinstance(model, LoadedModel) else None)
    resumed = bool(folder.finished_ids())
    mine = [w for of_task in work for w in processes.block(of_task)]
    throughput = _of_all(processes, _score(model, inference, mine, folder))
    if processes.rank == 0:
        results, notes, order = outcome(pd.DataFrame(folder.rows()))
        if resumed and record.model.get("content_hash") is None:
            notes = {**notes, "resumed_by_name": _BY_NAME.format(name=record.model["name"])}
        folder.finish(results, {"items": len(order), **throughput}, notes, order=order)
    processes.wait()
    return Run.open(folder.path)


def _shared_folder(
    processes: Processes, record: RunRecord, out: Path | str | None, resume: Path | str | None
) -> RunFolder:
    """The run's folder, made by the first process and opened by the others before anything is written to it."""
    first = RunFolder.begin(record, out=out, resume=resume) if processes.rank == 0 else None
    path = processes.from_first(str(first.path) if first else None)
    folder = first or RunFolder.begin(record, out=out, resume=Path(path), shared=True)
    processes.wait()
    return folder


def _of_all(processes: Processes, part: dict[str, float]) -> dict[str, float]:
    """Tokens and scored items of all processes over the time of the slowest; comes back when all are done."""
    parts = processes.gather(part)
    seconds = max(each["seconds"] for each in parts)
    tokens, items = (sum(each[name] for each in parts) for name in ("tokens", "items"))
    return {
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / max(seconds, 1e-9),
        "items_per_second": items / max(seconds, 1e-9),
    }


def _score(
    model: Any, inference: InferenceOptions, work: Sequence[Work], folder: RunFolder
) -> dict[str, float]:
    """Score all that is unfinished, storing example rows as they are complete; items, tokens and seconds of it."""
    finished = folder.finished_ids()
    # checked once a task: looking a protocol's members up takes longer than many a case
    row_tasks = {
        name for name, task in {w.task.name: w.task for w in work}.items() if isinstance(task, RowTask)
    }
    by_request = [w for w in work if w.task.name not in row_tasks]
    by_row = [w for w in work if w.task.name in row_tasks]
    with counted_tokens(getattr(model, "model", None)) as count:
        rows = chain(
            _rows(model, inference, by_request, finished), _own_rows(model, inference, by_row, finished)
        )
        seconds = folder.append_all(rows)
    return {
        "items": sum(w.id not in finished for w in work),
        "tokens": count.tokens,
        "seconds": seconds,
    }


def _rows(
    model: Any, inference: InferenceOptions, work: Sequence[Work], finished: set[str]
) -> Iterator[list[dict[str, Any]]]:
    """The example rows that each batch of answers completes."""
    owners = [(w, k) for w in work for k in range(len(w.requests))]
    done = {place for place, (w, _) in enumerate(owners) if w.id in finished}
    pending: dict[str, dict[int, Any]] = {}
    for batch in stream_answers(model, [w.requests[k] for w, k in owners], inference, done):
        rows = []
        for place, answer in batch:
            w, k = owners[place]
            pending.setdefault(w.id, {})[k] = answer
            if len(pending[w.id]) == len(w.requests) and w.id not in finished:
                rows.append(_row(w, pending.pop(w.id), getattr(model, "tokenizer", None)))
        yield rows


def _own_rows(
    model: Any, inference: InferenceOptions, work: Sequence[Work], finished: set[str]
) -> Iterator[list[dict[str, Any]]]:
    """The example rows of tasks that run the model themselves, task by task."""
    for _, group in groupby(work, key=lambda w: w.task.name):
        of_task = list(group)
        done = {place for place, w in enumerate(of_task) if w.id in finished}
        if len(done) == len(of_task):
            continue
        labels = {w.item.id: w.labels for w in of_task}
        for rows in cast(RowTask, of_task[0].task).rows(model, [w.item for w in of_task], inference, done):
            yield [{**row, **labels[row["id"]]} for row in rows]


def _row(work: Work, answers: dict[int, Any], tokenizer: Any) -> dict[str, Any]:
    in_order = [answers[k] for k in range(len(answers))]
    example = cast(RequestTask, work.task).example(work.item, in_order, tokenizer)
    columns = getattr(work.task, "columns", {}).get(work.item.id, {})
    row = {**columns, **work.labels, **example}
    if any(getattr(answer, "inside_token", False) for answer in in_order):
        row["inside_token"] = True
    return row if work.item.cluster is None else {**row, "cluster": work.item.cluster}
