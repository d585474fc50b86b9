"""Candidates for a gap in a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data.rows import Blanked
from workbench.data.source import Source
from workbench.estimate import Estimate
from workbench.evaluate._requests import Blank
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.metrics import ACCURACY, Metric, estimate_all
from workbench.evaluate.tasks.task_types.base import DeclaredTask, softmax
from workbench.models import Kind
from workbench.statistics import best_exact, best_f1

__all__ = ["ClozeTask"]


@dataclass(frozen=True, kw_only=True)
class ClozeTask(DeclaredTask):
    """Which candidate makes its text the most likely: causal models score it and what follows, others it alone."""

    source: Source[Blanked]
    passage: Callable[[Blanked], str]
    measures: tuple[Metric, ...] = (ACCURACY,)
    kinds: tuple[Kind, ...] = (Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ)
    accepts: tuple[str, ...] = ("split",)

    def load(self, data_dir: Path | None) -> TaskData:
        """All rows."""
        data = self.source.read(data_dir, self.split)
        return TaskData(tuple(self._item(row) for row in data), data.identity)

    def _item(self, row: Blanked) -> TaskItem:
        before = self.passage(row) + row.before
        requests = tuple(Blank(before, row.after, candidate) for candidate in row.candidates)
        gold = [i for i, c in enumerate(row.candidates) if c in row.answers]
        fields = {
            "text": f"{before}{row.answers[0]}{row.after}",
            "choices": list(row.candidates),
            "references": list(row.answers),
            "gold": gold[0] if gold else -1,
            "target": row.answers[0] + row.after,
        }
        return TaskItem(row.id, requests, fields, row.cluster)

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """The candidate with the highest log-probability (nats), against all right ones."""
        scores = [float(answer.log_probability) for answer in answers]
        best = int(np.argmax(scores))
        chosen, right = item.fields["choices"][best], item.fields["references"]
        return {
            **item.fields,
            "prediction": best,
            "predicted": chosen,
            "correct": chosen in right,
            "exact": best_exact(chosen, right),
            "f1": best_f1(chosen, right),
            "probabilities": softmax(scores),
            "log_probability": scores[max(item.fields["gold"], 0)],
        }

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """The declared metrics."""
        return estimate_all(self.measures, examples, seed)
