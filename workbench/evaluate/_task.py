"""What a task is: items with requests to the scoring engine, one example row per item, metrics over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from workbench.data import DataIdentity
from workbench.models import Kind
from workbench.scoring import Request, Score
from workbench.statistics import Estimate

__all__ = ["Item", "Task", "TaskData"]


@dataclass(frozen=True)
class Item:
    """One question: its id (task name and position), its requests, and the columns its example row starts from."""

    id: str
    requests: tuple[Request, ...]
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class TaskData:
    """All items of a task and the identity of the data they came from."""

    items: tuple[Item, ...]
    identity: DataIdentity


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

    def example(self, item: Item, scores: Sequence[Score], tokenizer: Any) -> dict[str, Any]:
        """The example row of one item, given the scores of its requests."""

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """The metrics over all example rows, each with its interval."""
