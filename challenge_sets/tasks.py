"""Challenge sets as tasks: ``workbench evaluate MODEL --task blimp`` asks what ``check MODEL --set blimp`` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from challenge_sets._set import ChallengeSet, CheckSettings, Work
from challenge_sets.diagnostics import SETS
from workbench.estimate import Estimate
from workbench.evaluate import TaskData, TaskItem, TaskOptions
from workbench.evaluate.inference import InferenceOptions
from workbench.models import Kind, LoadedModel

__all__ = ["TASKS", "SetTask"]


@dataclass(frozen=True)
class SetTask:
    """A challenge set, scored with the workbench's convention; ``check`` has the others."""

    challenge: ChallengeSet
    options: TaskOptions = field(default_factory=TaskOptions)

    @property
    def name(self) -> str:
        """The set's name."""
        return self.challenge.name

    @property
    def version(self) -> int:
        """The set's version."""
        return self.challenge.version

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of model that can be asked."""
        return self.challenge.kinds

    @property
    def about(self) -> str:
        """What is measured."""
        return self.challenge.about

    @property
    def _settings(self) -> CheckSettings:
        given = self.options
        return CheckSettings(set=self.name, data_dir=given.data_dir, limit=given.limit, seed=given.seed)

    def load(self, data_dir: Path | None) -> TaskData:
        """The set's items, within the limit, which is spread over its groups."""
        place = None if data_dir is None else str(data_dir)
        data = self.challenge.load(replace(self._settings, data_dir=place))
        items = (TaskItem(f"{self.name}/{item.id}", (), {"item": item}) for item in data.items)
        return TaskData(tuple(items), data.identity)

    def policy(self, model: LoadedModel) -> str:
        """How texts are scored, in words."""
        return self.challenge.policy(model, self._settings)

    def rows(
        self, model: LoadedModel, items: Sequence[TaskItem], options: InferenceOptions, done: Set[int]
    ) -> Iterator[list[dict[str, Any]]]:
        """The set's own rows, with the set's name before their ids."""
        own = [item.fields["item"] for item in items]
        work = Work(own, self._settings, frozenset(done), options.batch_tokens, options.progress)
        for rows in self.challenge.rows(model, work):
            yield [{**row, "id": f"{self.name}/{row['id']}", "task": self.name} for row in rows]

    def results(self, examples: pd.DataFrame) -> dict[str, dict[str, Estimate]]:
        """The set's own groups and metrics."""
        return self.challenge.metrics(examples.infer_objects())


TASKS = tuple(SetTask(SETS.get(name)) for name in SETS)
