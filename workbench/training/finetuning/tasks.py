"""What a model is fine-tuned on: the kind of answer, the columns, the files of the GLUE tasks."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from workbench.choices import as_members, member
from workbench.data.chats import chat_columns, read_messages
from workbench.data.files import find_file
from workbench.data.glue import GLUE as LAYOUTS
from workbench.data.hub import HubName, hub_splits, is_hub_name, reading, rows_of
from workbench.data.tables import Row, Rows, class_label, number_of, read_rows, records_of, table_name
from workbench.errors import DataError, did_you_mean

__all__ = ["GLUE", "AnswerKind", "FineTask", "TaskRows", "load_rows", "load_task"]


class AnswerKind(StrEnum):
    """What the head gives."""

    CLASS = "class"  # one label of a text or a pair of texts
    NUMBER = "number"  # a score of a text or a pair
    TOKENS = "tokens"  # a label of each word
    SPAN = "span"  # where in the context the answer stands
    CHOICE = "choice"  # one of several endings
    RESPONSE = "response"  # a text: instruction tuning


# columns that a kind reads if the user names none: text, pair, label; of responses those of CHAT_COLUMNS
_COLUMNS = {
    AnswerKind.CLASS: ("text", None, "label"),
    AnswerKind.NUMBER: ("text", None, "label"),
    AnswerKind.TOKENS: ("tokens", None, "labels"),
    AnswerKind.SPAN: ("question", "context", "answer"),
    AnswerKind.CHOICE: ("query", "choices", "gold"),
}


@dataclass(frozen=True)
class FineTask:
    """A task; ``labels`` in their order, empty where they are not a fixed set. ``metric`` is the one that counts.

    ``rationale``: a column with 1 for each word of a row's text that decides, 0 for the others, or nothing.
    """

    name: str
    kind: AnswerKind
    text: str
    label: str
    pair: str | None = None
    labels: tuple[str, ...] = ()
    metric: str = "accuracy"
    folder: str = ""
    train: tuple[str, ...] = ("train.tsv",)
    validation: tuple[str, ...] = ("dev.tsv",)
    header: tuple[str, ...] | None = None
    rationale: str | None = None

    def __post_init__(self) -> None:
        as_members(self)

    @property
    def has_messages(self) -> bool:
        """Whether one column holds whole conversations, as lists of messages."""
        return self.kind is AnswerKind.RESPONSE and self.text == self.label


@dataclass(frozen=True)
class TaskRows:
    """The rows to train and to validate on, checked; the task with its labels filled in.

    ``validation_file`` is its name where the rows to validate on were given.
    """

    task: FineTask
    train: list[Row]
    validation: list[Row]
    validation_file: str | None = None

    @property
    def sha256(self) -> str:
        """Of the rows' content, in order."""
        digest = hashlib.sha256()
        for row in [*self.train, *self.validation]:
            digest.update(json.dumps(row, sort_keys=True, default=str).encode())
        return digest.hexdigest()


def _glue_task(name: str, metric: str = "accuracy", form: int = 0) -> FineTask:
    """A task of GLUE with the columns of its first form, the official TSV, or of its last (-1), the hub's JSONL."""
    layout = LAYOUTS[name]
    return FineTask(
        name,
        AnswerKind.CLASS if layout.labels else AnswerKind.NUMBER,
        layout.text[form],
        layout.gold[form],
        layout.pair[form] if layout.pair else None,
        layout.labels,
        metric=metric,
        folder=layout.folder,
        train=layout.train[form:],
        validation=layout.validation[form:],
        header=layout.header,
    )


GLUE = {
    "mrpc": _glue_task("mrpc", "f1"),
    "rte": _glue_task("rte"),
    "wnli": _glue_task("wnli"),
    "qnli": _glue_task("qnli"),
    "mnli": _glue_task("mnli", form=-1),
    "sst2": _glue_task("sst2"),
    "cola": _glue_task("cola", "matthews"),
    "stsb": _glue_task("stsb", "spearman"),
}

_METRICS = {
    AnswerKind.NUMBER: "spearman",
    AnswerKind.TOKENS: "span_f1",
    AnswerKind.SPAN: "f1",
    AnswerKind.RESPONSE: "loss",
}


def load_task(
    name: str | Path | Rows,
    data_dir: Path | None = None,
    *,
    kind: str | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    rationale: str | None = None,
    validation: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> TaskRows:
    """A GLUE task by name out of ``data_dir``, the table in a file, or a set on the hub as
    ``hub:owner/name[@revision][:configuration[:split]]``.

    Rows in memory (a DataFrame, a ``datasets.Dataset``, mappings) are a table too, under the name "rows".

    A tenth is held out if nothing else is given. Rows of kind "response" are conversations: a column ``messages`` or
    ``conversations`` with lists of messages (:func:`~workbench.data.chats.read_messages`), or columns of one prompt and
    one reply, ``prompt`` and ``response`` or Alpaca's ``instruction``, ``input`` and ``output``.

    Raises :class:`~workbench.errors.DataError` for missing files, columns or labels, labels of the wrong type, and
    labels that are all the same.

    Example:
        ```python
        from pathlib import Path

        from workbench.training.finetuning import load_task

        rows = ["text,label"] + [f"a {word} film,{word}" for word in ("good", "bad")] * 10
        Path("films.csv").write_text("\\n".join(rows))
        found = load_task("films.csv")
        print(found.task.labels, len(found.train), len(found.validation))
        ```
    """
    in_memory = None if isinstance(name, str | Path) else records_of(name, "rows")
    name = "rows" if in_memory is not None else str(name)
    short = name.removeprefix("glue/")
    if in_memory is None and short in GLUE:
        task = GLUE[short]
        folder = Path(data_dir or ".") / task.folder
        train = read_rows(find_file(folder, *task.train), task.header)
        held = read_rows(find_file(folder, *task.validation), task.header)
    else:
        answer = member(AnswerKind, kind or "class", "kind")
        train, held = _table_rows(name, short) if in_memory is None else (in_memory, [])
        task = _table_task(name, answer, train[0], text, pair, label)
    if validation is not None:
        held = read_rows(validation, task.header)
    train, held = _cleaned(task, train, "training"), _cleaned(task, held, "validation")
    if not held:
        train, held = _split(train, seed)
    if rationale is not None and not any(row.get(rationale) for row in train):
        raise DataError(f"{name}: no row has {rationale!r}; it has {', '.join(map(str, train[0]))}")
    task = replace(_with_labels(task, train), rationale=rationale)
    for rows, where in ((train, "training"), (held, "validation")):
        _check_classes(task, rows, where)
    return TaskRows(task, train[:limit], held, None if validation is None else validation.name)


def load_rows(path: Path, task: FineTask) -> list[Row]:
    """The table at ``path`` as rows of ``task``; raises :class:`~workbench.errors.DataError` as :func:`load_task`."""
    rows = _cleaned(task, read_rows(path), path.name)
    _check_classes(task, rows, path.name)
    return rows


def _table_rows(name: str, short: str) -> tuple[list[Row], list[Row]]:
    if is_hub_name(name):
        return _hub_rows(HubName.parse(name))
    path = Path(name).expanduser()
    if not path.is_file():
        raise DataError(
            f"no task {name!r}: no such file, no hub:owner/name, and {did_you_mean(short, list(GLUE))}"
        )
    return read_rows(path), []


_VALIDATION = ("validation", "dev", "validation_matched", "test")


def _hub_rows(name: HubName) -> tuple[list[Row], list[Row]]:
    """Training and validation rows; of one split that is named there are none to validate with."""
    splits = hub_splits(name, "a set on the hub")
    if name.split is not None:
        return _listed(splits, name), []
    if "train" not in splits:
        raise DataError(f"{name} has no split 'train'; it has {', '.join(splits)}")
    held = next((split for split in _VALIDATION if split in splits), None)
    return _listed(splits["train"], name), [] if held is None else _listed(splits[held], name)


def _listed(split: Any, name: HubName) -> list[Row]:
    with reading(name):
        return list(rows_of(split))


def _table_task(
    name: str, answer: AnswerKind, row: Row, text: str | None, pair: str | None, label: str | None
) -> FineTask:
    """The task of a table whose first row is ``row``."""
    usual = chat_columns(row, text) if answer is AnswerKind.RESPONSE else _COLUMNS[answer]
    return FineTask(
        table_name(name),
        answer,
        text or usual[0] or "",
        label or usual[2] or "",
        pair or usual[1],
        metric=_METRICS.get(answer, "accuracy"),
    )


def _split(rows: list[Row], seed: int) -> tuple[list[Row], list[Row]]:
    if len(rows) < 4:
        raise DataError(f"too few rows ({len(rows)}) to hold some out; give --validation FILE, or more rows")
    order = np.random.default_rng(seed).permutation(len(rows))
    held = max(2, len(rows) // 10)
    return [rows[i] for i in order[held:]], [rows[i] for i in order[:held]]


def _with_labels(task: FineTask, rows: list[Row]) -> FineTask:
    if task.labels or task.kind not in (AnswerKind.CLASS, AnswerKind.TOKENS):
        return task
    values: set[str] = set()
    for row in rows:
        value = row.get(task.label)
        if value is not None:
            values.update(map(str, value) if isinstance(value, list) else [str(value)])
    return replace(task, labels=tuple(sorted(values, key=lambda v: (not v.isdigit(), v.zfill(8)))))


def _cleaned(task: FineTask, rows: list[Row], where: str) -> list[Row]:
    """The rows in the file's order, each with all columns and a label of the task's type."""
    cleaned = []
    may_be_empty = task.pair if task.kind is AnswerKind.RESPONSE else None  # Alpaca's input
    for number, given in enumerate(rows, 1):
        place = f"{task.name}, {where} row {number}"
        row = {
            name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in given.items()
        }
        for column in filter(None, (task.text, task.pair, task.label)):
            if row.get(column) in (None, "") and column != may_be_empty:
                has = ", ".join(map(str, row))
                raise DataError(f"{place}: no {column!r}; name columns with --text-column …; it has {has}")
        cleaned.append({**row, task.label: _label(task, row[task.label], place)})
    return cleaned


def _label(task: FineTask, value: Any, place: str) -> Any:
    """The label without white space around it; numbers stay as they are."""
    if task.kind is AnswerKind.CLASS:
        name = class_label(value, place)
        return name if isinstance(value, str) else value
    if task.kind is AnswerKind.TOKENS:
        if not isinstance(value, list):
            raise DataError(f"{place}: {task.label} is {value!r:.40}; a list with one label a word is needed")
        return [class_label(v, place) if isinstance(v, (str, float)) or v is None else v for v in value]
    if task.kind is AnswerKind.NUMBER:
        number_of(value, place, task.label)
    if task.has_messages:
        return [{"role": role, "content": text} for role, text in read_messages(value, place)]
    return value


def _check_classes(task: FineTask, rows: list[Row], where: str) -> None:
    """Raise :class:`DataError` for a class that is not the task's, and for training rows of one class only."""
    if task.kind is not AnswerKind.CLASS:
        return
    seen = [str(row[task.label]) for row in rows]
    for number, name in enumerate(seen, 1):
        if name not in task.labels:
            known = ", ".join(task.labels[:8])
            raise DataError(
                f"{task.name}, {where} row {number}: {task.label} is {name!r:.40}; known: {known}"
            )
    if len(set(seen)) < 2 and where == "training":
        raise DataError(f"{task.name}: every label is {seen[0]!r}; classification needs two at least")
