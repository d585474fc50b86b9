"""What a task is: items with requests to a model, one example row per item, metrics over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from workbench.data import DataIdentity
from workbench.evaluate._requests import AnyRequest
from workbench.evaluate.inference import InferenceOptions
from workbench.models import Kind, LoadedModel
from workbench.statistics import Estimate

__all__ = ["RequestTask", "RowTask", "Task", "TaskData", "TaskItem", "Work"]


@dataclass(frozen=True)
class TaskItem:
    """One question: its id (task name and position), its requests, and the columns its example row starts from.

    ``requests`` go to language models, ``head`` to classifiers and functions, ``bare`` to
    encoder-decoders, where they differ.
    Items of equal ``cluster`` share a passage and are not independent: intervals resample clusters.
    """

    id: str
    requests: tuple[AnyRequest, ...]
    fields: Mapping[str, Any]
    cluster: str | None = None
    head: tuple[AnyRequest, ...] = ()
    bare: tuple[AnyRequest, ...] = ()

    def requests_for(self, kind: Kind) -> tuple[AnyRequest, ...]:
        """What a model of ``kind`` is asked."""
        if kind is Kind.SEQ2SEQ and self.bare:
            return self.bare
        return self.head if kind in (Kind.CLASSIFIER, Kind.FUNCTION) and self.head else self.requests


@dataclass(frozen=True)
class TaskData:
    """All items of a task and the identity of the data they came from.

    ``shots`` are the examples that stand before the questions, by group of items (one group: "all").
    """

    items: tuple[TaskItem, ...]
    identity: DataIdentity
    shots: Mapping[str, str] | None = None


class Task(Protocol):
    """A named evaluation. ``version`` rises whenever its numbers can change."""

    @property
    def name(self) -> str:
        """The task's name, as in lm-eval where it has the task."""

    @property
    def version(self) -> int:
        """Stored with each run."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of model that can be asked."""

    @property
    def about(self) -> str:
        """One line: what is measured, and on which files."""

    def load(self, data_dir: Path | None) -> TaskData:
        """Read the items; raises :class:`~workbench.errors.DataError` naming the files looked for."""


class RequestTask(Task, Protocol):
    """A task whose items have requests, which the runner asks: most tasks."""

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """The example row of one item, given the answers to its requests (an ``Answer`` each)."""

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """The metrics over all example rows, each with its interval."""


@runtime_checkable
class RowTask(Task, Protocol):
    """A task that asks the model itself, such as a challenge set, whose pairs share what they begin with."""

    def rows(
        self, model: LoadedModel, items: Sequence[TaskItem], options: InferenceOptions, done: Set[int]
    ) -> Iterator[list[dict[str, Any]]]:
        """The rows of ``items``, each with its item's ``id``, but those at the places ``done``, as they come."""

    def results(self, examples: pd.DataFrame) -> dict[str, dict[str, Estimate]]:
        """Group -> metric -> value with interval; the group of all items has the task's name."""

    def policy(self, model: LoadedModel) -> str:
        """How texts are scored, in words."""

    def notes(self, rows: pd.DataFrame) -> dict[str, Any]:
        """What stands beside the results of these rows, by name."""


@dataclass(frozen=True)
class Work:
    """One item of one task in a run.

    ``labels`` are the columns that its row has in this run: ``id``, and ``task`` where the run may have several.
    ``requests`` are those of a :class:`RequestTask` for this model.
    """

    task: Task
    item: TaskItem
    labels: Mapping[str, str]
    requests: tuple[AnyRequest, ...] = ()

    @property
    def id(self) -> str:
        """The id of the item's row."""
        return self.labels["id"]
