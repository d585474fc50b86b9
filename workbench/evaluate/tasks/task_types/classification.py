"""Labels and scores of texts and pairs: by a head, or by comparing how likely verbalised answers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data.rows import TextPair
from workbench.data.source import Source
from workbench.errors import DataError, TaskError
from workbench.estimate import Estimate
from workbench.evaluate._requests import ClassificationRequest, HeadScores, Request
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.metrics import ACCURACY, Metric, estimate_all
from workbench.evaluate.tasks.task_types.base import DeclaredTask, Shots, draw_shots, softmax
from workbench.models import Kind
from workbench.models.problem import ProblemType

__all__ = ["TextClassification", "TextScore", "match_labels"]

_KINDS = (Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, Kind.CLASSIFIER)


@dataclass(frozen=True, kw_only=True)
class TextClassification(DeclaredTask):
    """``labels`` are the names that heads may use, ``words`` the answers that stand for them after the prompt.

    ``aliases`` are other sets of names that heads of published models use.
    """

    source: Source[TextPair]
    labels: tuple[str, ...]
    aliases: tuple[tuple[str, ...], ...] = ()
    words: tuple[str, ...]
    prompt: Callable[[TextPair], str]
    measures: tuple[Metric, ...] = (ACCURACY,)
    kinds: tuple[Kind, ...] = (*_KINDS, Kind.FUNCTION)
    accepts: tuple[str, ...] = ("shots", "chat", "system", "split")
    problem: ProblemType = ProblemType.ONE_LABEL

    def load(self, data_dir: Path | None) -> TaskData:
        """All rows; of an unlabelled split, whose answers are only predicted, too."""
        data = self.source.read(data_dir, self.split)
        shots = draw_shots(
            self.source, data_dir, self.split, data.items, self.shots, self.options.seed, self.shown
        )
        items = tuple(self.item(row, shots) for row in data if row.id not in shots.used)
        return TaskData(items, data.identity, shots.texts)

    def shown(self, row: TextPair) -> str:
        """A row as an example."""
        if row.gold is None:
            raise DataError(f"{row.id} has no label, so it cannot be an example")
        return f"{self.prompt(row)} {self.word(row.gold)}"

    def word(self, gold: float) -> str:
        """The verbalised gold label."""
        return self.words[int(gold)]

    def item(self, row: TextPair, shots: Shots) -> TaskItem:
        """One request a label; for heads the text or the pair itself."""
        context = shots.before("all") + self.prompt(row)
        fields: dict[str, Any] = {"text": self.prompt(row), "gold": row.gold, "index": row.index}
        if row.gold is not None:
            fields |= self.gold_fields(row.gold)
        if row.pair is not None:
            fields |= {"first_text": row.text, "second_text": row.pair}
        if row.group is not None:
            fields["group"] = row.group
        requests = tuple(Request(context, f" {word}") for word in self.words)
        return TaskItem(
            row.id, requests, fields, row.cluster, (ClassificationRequest(row.text, row.pair, self.problem),)
        )

    def gold_fields(self, gold: float) -> dict[str, Any]:
        """The gold label as columns."""
        return {"gold": int(gold), "label": self.labels[int(gold)], "target": self.words[int(gold)]}

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """Predicted label, its name, and the share of each."""
        scores = self._scores(answers)
        predicted, gold = int(np.argmax(scores)), item.fields["gold"]
        row = {
            **item.fields,
            "prediction": predicted,
            "predicted": self.labels[predicted],
            "probabilities": softmax(scores),
            "log_probabilities": scores,
        }
        if gold is not None:
            row |= {
                "correct": predicted == gold,
                "log_probability": float(np.log(softmax(scores)[gold] + 1e-45)),
            }
        return row

    def _scores(self, answers: Sequence[Any]) -> list[float]:
        if isinstance(answers[0], HeadScores):
            order = match_labels(answers[0].labels, (self.labels, self.words, *self.aliases), self.name)
            return [answers[0].values[i] for i in order]
        return [float(answer.log_probability) for answer in answers]

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """The official metrics; none of an unlabelled split."""
        if "gold" not in examples or examples["gold"].isna().any():
            return {}
        return estimate_all(self.measures, examples, seed)


@dataclass(frozen=True, kw_only=True)
class TextScore(TextClassification):
    """A number: the head's own, or the mean of the numbers among ``words`` weighted by how likely each is."""

    labels: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = _KINDS
    problem: ProblemType = ProblemType.NUMBER

    def word(self, gold: float) -> str:
        """The number among the words that is nearest."""
        return min(self.words, key=lambda word: abs(float(word) - gold))

    def gold_fields(self, gold: float) -> dict[str, Any]:
        """The gold score."""
        return {"gold": float(gold), "target": f"{gold:g}"}

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """The predicted number."""
        if isinstance(answers[0], HeadScores):
            if len(answers[0].values) != 1:
                raise TaskError(
                    f"{self.name} needs a head with one number; this one has {len(answers[0].values)} labels"
                )
            predicted = float(answers[0].values[0])
        else:
            shares = softmax([float(answer.log_probability) for answer in answers])
            predicted = float(sum(s * float(w) for s, w in zip(shares, self.words, strict=True)))
        return {**item.fields, "prediction": predicted, "predicted": f"{predicted:.3f}"}


def match_labels(head: Sequence[str], sets: Sequence[Sequence[str]], task: str) -> list[int]:
    """For each of the task's labels the number of the head's label.

    They are matched by name, in one of the ``sets`` of names that the task's labels go by; by number if the head
    has no names but LABEL_0, LABEL_1, … Raises :class:`~workbench.errors.TaskError` if they cannot be matched.
    """
    plain = [_plain(name) for name in head]
    for names in sets:
        wanted = [_plain(name) for name in names]
        if set(wanted) <= set(plain):
            return [plain.index(name) for name in wanted]
    labels = sets[0]
    if len(head) == len(labels) and all(name == f"label{i}" for i, name in enumerate(plain)):
        return list(range(len(labels)))
    raise TaskError(
        f"the head's labels {', '.join(head)} are not those of {task}: {', '.join(labels)}; "
        "name them in the model's configuration (id2label), or in workbench.wrap(function, labels=...)"
    )


def _plain(name: str) -> str:
    return str(name).lower().replace("_", "").replace("-", "").replace(" ", "")
