"""Which of two replies is preferred: by likelihood, or by a reward model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.data.rows import Preference
from workbench.data.source import Source
from workbench.errors import TaskError
from workbench.estimate import Estimate
from workbench.evaluate._requests import ClassificationRequest, HeadScores, Request
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.metrics import Mean, Metric, estimate_all
from workbench.evaluate.tasks.task_types.base import DeclaredTask
from workbench.models import Kind
from workbench.models.problem import ProblemType

__all__ = ["PreferenceTask"]

_MEASURES = (
    Mean("accuracy", "correct", "win rate: share of pairs whose chosen reply scores higher"),
    Mean("accuracy_per_token", "correct_per_token", "the same by mean log-probability of a token"),
    Mean("margin", "margin", "mean difference of the scores, chosen less rejected (nats, or rewards)"),
)


@dataclass(frozen=True, kw_only=True)
class PreferenceTask(DeclaredTask):
    """Language models score each reply after the prompt; reward models (one number) score the whole dialogue."""

    source: Source[Preference]
    measures: tuple[Metric, ...] = _MEASURES
    kinds: tuple[Kind, ...] = (Kind.CAUSAL, Kind.SEQ2SEQ, Kind.MASKED, Kind.CLASSIFIER)
    accepts: tuple[str, ...] = ("split", "chat", "system")

    def load(self, data_dir: Path | None) -> TaskData:
        """All pairs with two replies."""
        data = self.source.read(data_dir, self.split)
        return TaskData(tuple(self._item(row) for row in data), data.identity)

    def _item(self, row: Preference) -> TaskItem:
        replies = (row.chosen, row.rejected)
        fields = {"text": row.prompt + row.chosen, "target": row.chosen, "rejected": row.rejected}
        requests = tuple(Request(row.prompt, reply) for reply in replies)
        head = tuple(
            ClassificationRequest(row.prompt + reply, problem=ProblemType.NUMBER) for reply in replies
        )
        return TaskItem(row.id, requests, fields, row.cluster, head)

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """Scores of both replies; ties count as wrong."""
        if isinstance(answers[0], HeadScores):
            if len(answers[0].values) != 1:
                raise TaskError(
                    f"{self.name} needs a reward model with one number; this head has several labels"
                )
            scores = [answer.values[0] for answer in answers]
            each = scores
        else:
            scores = [float(answer.log_probability) for answer in answers]
            each = [score / answer.tokens for score, answer in zip(scores, answers, strict=True)]
        return {
            **item.fields,
            "log_probability": scores[0],
            "rejected_log_probability": scores[1],
            "margin": scores[0] - scores[1],
            "correct": scores[0] > scores[1],
            "correct_per_token": each[0] > each[1],
        }

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """Win rates with Wilson's interval, mean margin with a bootstrap's."""
        return estimate_all(self.measures, examples, seed)
