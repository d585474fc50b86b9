"""Multiple choice: which continuation is the most likely; and its variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data.rows import Choices
from workbench.data.source import Source
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.evaluate._requests import ChoiceRequest, HeadScores, Request, Score
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.metrics import ACCURACY, ACCURACY_BYTES, ACCURACY_NORM, Mean, Metric, estimate_all
from workbench.evaluate.tasks.task_types.base import DeclaredTask, Shots, draw_shots, softmax
from workbench.models import Kind

__all__ = ["MultipleChoice", "PartialChoice", "TrueMass"]

_KINDS = (Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, Kind.CLASSIFIER)


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(DeclaredTask):
    """Each choice is scored as the continuation of the prompt, after one blank.

    ``accuracy`` takes the choice of the highest log-probability, ``accuracy_norm`` that per character and
    ``accuracy_bytes`` that per UTF-8 byte of the choice, as lm-eval's acc, acc_norm and acc_bytes do. Models with a
    multiple-choice head score prompt and choice as a pair.
    """

    source: Source[Choices]
    prompt: Callable[[Choices], str]
    measures: tuple[Metric, ...] = (ACCURACY, ACCURACY_NORM, ACCURACY_BYTES)
    kinds: tuple[Kind, ...] = _KINDS
    accepts: tuple[str, ...] = ("shots", "chat", "system", "split")

    def answers(self, row: Choices) -> tuple[str, ...]:
        """What is scored after the prompt."""
        return row.choices

    def load(self, data_dir: Path | None) -> TaskData:
        """All rows with a right answer; the examples before them, if any."""
        data = self.source.read(data_dir, self.split)
        shots = draw_shots(
            self.source, data_dir, self.split, data.items, self.shots, self.options.seed, self.shown
        )
        items = tuple(self.item(row, shots) for row in data if row.id not in shots.used)
        return TaskData(items, data.identity, shots.texts)

    def shown(self, row: Choices) -> str:
        """A row as an example: its prompt and its right answer."""
        return f"{self.prompt(row)} {self.answers(row)[row.gold[0]]}"

    def item(self, row: Choices, shots: Shots) -> TaskItem:
        """One request a choice."""
        if not row.gold:
            raise DataError(f"{row.id} has no answer key; evaluate a labelled split")
        prompt = self.prompt(row)
        context = shots.before("all") + prompt
        requests = tuple(Request(context, f" {answer}") for answer in self.answers(row))
        return self.finish(row, prompt, requests)

    def finish(self, row: Choices, prompt: str, requests: tuple[Request, ...]) -> TaskItem:
        """The item with what its example row starts from."""
        fields = {
            "text": prompt,
            "choices": list(row.choices),
            "gold": row.gold[0],
            "target": self.answers(row)[row.gold[0]],
        }
        if row.subject:
            fields["subject"] = row.subject
        return TaskItem(row.id, requests, fields, row.cluster, (ChoiceRequest(prompt, row.choices),))

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """Log-probability of each choice (nats), the choices they favour, and their shares."""
        scores = _values(answers)
        choices = self._normalised_by(item)
        gold = item.fields["gold"]
        best = {
            "correct": int(np.argmax(scores)),
            "correct_norm": int(np.argmax(scores / np.array([max(len(c), 1) for c in choices]))),
            "correct_bytes": int(np.argmax(scores / np.array([max(len(c.encode()), 1) for c in choices]))),
        }
        return {
            **item.fields,
            "prediction": best["correct"],
            "predicted": self._normalised_by(item)[best["correct"]],
            **{name: choice == gold for name, choice in best.items()},
            "log_probability": float(scores[gold]),
            "log_probabilities": scores.tolist(),
            "probabilities": softmax(scores.tolist()),
            "truncated": max((getattr(a, "truncated", 0) for a in answers), default=0),
        }

    def _normalised_by(self, item: TaskItem) -> list[str]:
        if item.requests and isinstance(item.requests[0], Request):
            return [request.continuation.removeprefix(" ") for request in item.requests]  # type: ignore[union-attr]
        return list(item.fields["choices"])

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """The declared metrics."""
        return estimate_all(self.measures, examples, seed)


def _values(answers: Sequence[Score | HeadScores]) -> np.ndarray[Any, np.dtype[np.float64]]:
    if isinstance(answers[0], HeadScores):
        return np.array(answers[0].values)
    return np.array([a.log_probability for a in answers if isinstance(a, Score)])


@dataclass(frozen=True, kw_only=True)
class PartialChoice(MultipleChoice):
    """The choices stand in the context and what follows is the same: which makes it more likely (Trinh & Le 2018)."""

    measures: tuple[Metric, ...] = (ACCURACY,)
    kinds: tuple[Kind, ...] = (Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ)

    def shown(self, row: Choices) -> str:
        """The sentence with the right option."""
        return f"{row.contexts[row.gold[0]]} {row.question}"

    def item(self, row: Choices, shots: Shots) -> TaskItem:
        """One request a context, each with the same continuation."""
        if not row.gold:
            raise DataError(f"{row.id} has no answer key; evaluate a labelled split")
        requests = tuple(Request(shots.before("all") + c, f" {row.question}") for c in row.contexts)
        fields = {"text": f"{row.contexts[row.gold[0]]} {row.question}", "choices": list(row.contexts)}
        gold = {"gold": row.gold[0], "target": f" {row.question}"}
        return TaskItem(row.id, requests, {**fields, **gold}, row.cluster)


@dataclass(frozen=True, kw_only=True)
class TrueMass(MultipleChoice):
    """The share of probability that the true answers have among all answers: TruthfulQA's MC2 (Lin et al. 2022)."""

    measures: tuple[Metric, ...] = (Mean("mc2", "true_mass", "normalised probability of the true answers"),)
    kinds: tuple[Kind, ...] = (Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ)

    def finish(self, row: Choices, prompt: str, requests: tuple[Request, ...]) -> TaskItem:
        """Also which answers are true."""
        item = super().finish(row, prompt, requests)
        return TaskItem(item.id, requests, {**item.fields, "true": list(row.gold)}, item.cluster)

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """The sum of the true answers' shares."""
        row = super().example(item, answers, tokenizer)
        mass = float(sum(row["probabilities"][i] for i in item.fields["true"]))
        return {**row, "true_mass": mass, "correct": row["prediction"] in item.fields["true"]}
