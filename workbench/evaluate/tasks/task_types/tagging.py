"""A label for each word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.data.rows import TaggedWords
from workbench.data.source import Source
from workbench.estimate import Estimate
from workbench.evaluate._requests import TaggingRequest
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.metrics import ENTITY_METRICS, Metric, estimate_all
from workbench.evaluate.tasks.task_types.base import DeclaredTask
from workbench.models import Kind
from workbench.statistics import label_spans

__all__ = ["Tagging"]


@dataclass(frozen=True, kw_only=True)
class Tagging(DeclaredTask):
    """Entities by a token-classification head whose labels are IOB tags."""

    source: Source[TaggedWords]
    measures: tuple[Metric, ...] = ENTITY_METRICS
    kinds: tuple[Kind, ...] = (Kind.CLASSIFIER,)
    accepts: tuple[str, ...] = ("split",)

    def load(self, data_dir: Path | None) -> TaskData:
        """All sentences."""
        data = self.source.read(data_dir, self.split)
        items = tuple(
            TaskItem(
                row.id,
                (TaggingRequest(row.words),),
                {"text": " ".join(row.words), "gold_tags": list(row.tags)},
                row.cluster,
            )
            for row in data
        )
        return TaskData(items, data.identity)

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """Tags, and how many entities are right, predicted and gold."""
        (answer,) = answers
        predicted, gold = label_spans(answer.labels), label_spans(item.fields["gold_tags"])
        return {
            **item.fields,
            "predicted_tags": list(answer.labels),
            "entities_right": len(predicted & gold),
            "entities_predicted": len(predicted),
            "entities_gold": len(gold),
            "correct": predicted == gold,
        }

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """F1, precision and recall of entities."""
        return estimate_all(self.measures, examples, seed)
