"""Two words in context: do they belong together; by their states, or by a verbalised question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data.rows import SpanPair
from workbench.data.source import Source
from workbench.errors import TaskError
from workbench.estimate import Estimate
from workbench.evaluate._requests import PairFeatures, Request, SpanPairRequest
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.inference import InferenceOptions, stream_answers
from workbench.evaluate.metrics import ACCURACY, Metric, estimate_all
from workbench.evaluate.tasks.task_types.base import DeclaredTask, Shots, draw_shots, softmax
from workbench.models import Kind, LoadedModel
from workbench.shapes import Array

__all__ = ["Readout", "SpanPairs"]


@dataclass(frozen=True, eq=False)
class Readout:
    """Logistic regression over standardised features: ``weights`` (features,), ``bias``."""

    mean: Array
    scale: Array
    weights: Array
    bias: float

    def score(self, values: Sequence[float]) -> float:
        """Log-odds of the second label."""
        return float((np.asarray(values) - self.mean) / self.scale @ self.weights + self.bias)


@dataclass(frozen=True, kw_only=True)
class SpanPairs(DeclaredTask):
    """Language models answer a question; encoders are read out by logistic regression over the spans' states.

    The readout is fitted on the train split while the encoder stays as it is (``--finetune``).
    """

    source: Source[SpanPair]
    prompt: Callable[[SpanPair], str]
    words: tuple[str, ...] = ("no", "yes")
    labels: tuple[str, ...] = ("false", "true")
    measures: tuple[Metric, ...] = (ACCURACY,)
    readout: Readout | None = None
    accepts: tuple[str, ...] = ("shots", "chat", "system", "split")

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Encoders once there is a readout."""
        return (
            (Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ)
            if self.readout is None
            else (Kind.ENCODER, Kind.DETECTOR, Kind.MASKED, Kind.CAUSAL)
        )

    def load(self, data_dir: Path | None) -> TaskData:
        """All rows."""
        data = self.source.read(data_dir, self.split)
        shots = draw_shots(
            self.source, data_dir, self.split, data.items, self.shots, self.options.seed, self.shown
        )
        return TaskData(
            tuple(self._item(row, shots) for row in data if row.id not in shots.used),
            data.identity,
            shots.texts,
        )

    def shown(self, row: SpanPair) -> str:
        """A row as an example."""
        return f"{self.prompt(row)} {self.words[row.gold or 0]}"

    def _item(self, row: SpanPair, shots: Shots) -> TaskItem:
        prompt = self.prompt(row)
        fields: dict[str, Any] = {"text": prompt, "gold": row.gold, "index": row.index}
        if row.gold is not None:
            fields |= {"label": self.labels[row.gold], "target": self.words[row.gold]}
        requests: tuple[Any, ...] = (_pair(row),)
        if self.readout is None:
            requests = tuple(Request(shots.before("all") + prompt, f" {word}") for word in self.words)
        return TaskItem(row.id, requests, fields, row.cluster)

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """Predicted label and the share of each."""
        if isinstance(answers[0], PairFeatures):
            assert self.readout is not None
            odds = self.readout.score(answers[0].values)
            scores = [0.0, odds]
        else:
            scores = [float(answer.log_probability) for answer in answers]
        predicted, gold = int(np.argmax(scores)), item.fields["gold"]
        row = {**item.fields, "prediction": predicted, "predicted": self.labels[predicted]}
        row["probabilities"] = softmax(scores)
        return row if gold is None else {**row, "correct": predicted == gold}

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """Accuracy; nothing of an unlabelled split."""
        if "gold" not in examples or examples["gold"].isna().any():
            return {}
        return estimate_all(self.measures, examples, seed)

    def fitted(self, model: LoadedModel, data_dir: Path | None, seed: int = 0) -> SpanPairs:
        """The task with a readout of ``model`` fitted on the train split (L2, strength 1).

        Raises :class:`~workbench.errors.DataError` if there is none and :class:`~workbench.errors.TaskError` for
        models without token states of their own.
        """
        from sklearn.linear_model import LogisticRegression

        if model.kind is Kind.CLASSIFIER:
            raise TaskError(f"{self.name} reads token states; give the encoder itself, not a classifier")
        rows = [row for row in self.source.read(data_dir, "train") if row.gold is not None]
        found: dict[int, PairFeatures] = {}
        for batch in stream_answers(model, [_pair(row) for row in rows], InferenceOptions(seed=seed)):
            found.update((place, answer) for place, answer in batch if isinstance(answer, PairFeatures))
        features = np.array([found[i].values for i in range(len(rows))])
        mean, scale = features.mean(0), np.maximum(features.std(0), 1e-6)
        solver = LogisticRegression(C=1 / features.shape[1], max_iter=1000, random_state=seed)
        solver.fit((features - mean) / scale, [row.gold for row in rows])
        return replace(self, readout=Readout(mean, scale, solver.coef_[0], float(solver.intercept_[0])))


def _pair(row: SpanPair) -> SpanPairRequest:
    return SpanPairRequest(row.first, row.second, row.first_span, row.second_span)
