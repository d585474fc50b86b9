"""SQuAD v2's metrics: questions with and without an answer apart, and the best threshold (Rajpurkar et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from workbench.estimate import Estimate
from workbench.evaluate.metrics._metric import Mean, Metric, OfMeasure
from workbench.statistics import swept_threshold, threshold_measure

__all__ = ["UNANSWERABLE_METRICS", "BestThreshold", "MeanOfKind"]


@dataclass(frozen=True)
class MeanOfKind:
    """The mean of a column over the questions that have an answer, or those that have none."""

    name: str
    column: str
    has_answer: bool
    about: str = ""
    higher_is_better: bool = True

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """The mean with its interval; undefined where there is no such question."""
        rows = examples[examples["has_answer"].astype(bool) == self.has_answer]
        if rows.empty:
            kind = "with" if self.has_answer else "without"
            why = f"there is no question {kind} an answer"
            return Estimate.without_interval(float("nan"), 0, why, method="mean")
        return Mean(self.name, self.column, self.about).estimate(rows, seed)


@dataclass(frozen=True)
class BestScore(OfMeasure):
    """The best mean of a column over thresholds. Ties of the probability are taken in the order of the rows."""

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """The metric with its bootstrap interval; resamples of whole clusters have an order of their own."""
        value = float(self.measure(examples[list(self.columns)].to_numpy(float)))
        return replace(super().estimate(examples, seed), value=value)


@dataclass(frozen=True)
class BestThreshold:
    """The probability of having no answer above which answers are withdrawn for the best mean of a column."""

    name: str
    columns: tuple[str, ...]
    about: str = ""
    higher_is_better: bool | None = None

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """The threshold, which has no interval and no better way."""
        value = float(swept_threshold(examples[list(self.columns)].to_numpy(float))[1])
        why = "chosen on these items"
        return Estimate.without_interval(
            value, len(examples), why, method="sweep of all thresholds", higher_is_better=None
        )


def _columns(score: str) -> tuple[str, ...]:
    return (f"raw_{score}", "has_answer", "answered", "no_answer_probability")


_SCORES = ("exact", "f1")
UNANSWERABLE_METRICS: tuple[Metric, ...] = (
    *(
        MeanOfKind(f"{name}_{score}", score, has, f"{score} over questions {which} an answer")
        for name, has, which in (("HasAns", True, "with"), ("NoAns", False, "without"))
        for score in _SCORES
    ),
    *(
        BestScore(f"best_{score}", _columns(score), threshold_measure, f"{score} at the best threshold")
        for score in _SCORES
    ),
    *(BestThreshold(f"best_{score}_thresh", _columns(score), "that threshold") for score in _SCORES),
)
