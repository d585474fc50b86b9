"""Metrics: small objects over example rows, each with a standard error and an interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.evaluate.metrics._metric import (
    ACCURACY,
    ENTITY_METRICS,
    EXACT_MATCH,
    F1,
    MACRO_F1,
    MATTHEWS,
    PEARSON,
    PERPLEXITIES,
    SPEARMAN,
    WORD_F1,
    Mean,
    Metric,
    OfMeasure,
    OfRows,
    OfSums,
    exact_groups,
)
from workbench.evaluate.metrics.text import BLEU, CHRF, ROUGE_METRICS, ROUGE_NAMES, rouge
from workbench.evaluate.metrics.unanswerable import UNANSWERABLE_METRICS
from workbench.registry import Registry

__all__ = [
    "ACCURACY",
    "ACCURACY_BYTES",
    "ACCURACY_NORM",
    "BLEU",
    "CHRF",
    "ENTITY_METRICS",
    "EXACT_MATCH",
    "F1",
    "MACRO_F1",
    "MATTHEWS",
    "METRICS",
    "PEARSON",
    "PERPLEXITIES",
    "ROUGE_METRICS",
    "ROUGE_NAMES",
    "SPEARMAN",
    "UNANSWERABLE_METRICS",
    "WORD_F1",
    "Mean",
    "Metric",
    "OfMeasure",
    "OfRows",
    "OfSums",
    "estimate_all",
    "exact_groups",
    "rouge",
    "score_labels",
]

ACCURACY_NORM = Mean(
    "accuracy_norm",
    "correct_norm",
    "accuracy by log-probability per character of the choice, lm-eval's acc_norm",
)
ACCURACY_BYTES = Mean(
    "accuracy_bytes", "correct_bytes", "accuracy by log-probability per UTF-8 byte of the choice"
)

METRICS: Registry[Metric] = Registry("metric")
_COLUMNS: tuple[Metric, ...] = (
    ACCURACY,
    ACCURACY_NORM,
    ACCURACY_BYTES,
    F1,
    MACRO_F1,
    MATTHEWS,
    PEARSON,
    SPEARMAN,
    BLEU,
    CHRF,
)
_OTHERS: tuple[Metric, ...] = (EXACT_MATCH, *ENTITY_METRICS, *ROUGE_METRICS, *PERPLEXITIES)
for _metric in (*_COLUMNS, *_OTHERS):
    METRICS.register(_metric.name, _metric)
METRICS.register("word_f1", WORD_F1)


def estimate_all(metrics: Sequence[Metric], examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
    """Each metric over the rows, by name."""
    return {metric.name: metric.estimate(examples, seed) for metric in metrics}


def score_labels(
    names: Sequence[str],
    predicted: Sequence[Any],
    gold: Sequence[Any],
    *,
    labels: Sequence[str] = (),
    seed: int = 0,
) -> dict[str, Estimate]:
    """The named metrics of predictions that somebody else made: label numbers, label names, or scores.

    Raises :class:`~workbench.errors.DataError` if the lists differ in length, are empty, hold NaN, or name
    labels outside ``labels``.
    """
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted)} predictions for {len(gold)} gold labels; give one of each an item")
    if not len(gold):
        raise DataError("no predictions to score; give one of each an item")
    columns = {n: [_number(v, labels, n) for v in c] for n, c in (("prediction", predicted), ("gold", gold))}
    frame = pd.DataFrame(columns)
    frame["correct"] = frame["prediction"] == frame["gold"]
    return estimate_all([METRICS.get(name) for name in names], frame, seed)


def _number(value: Any, labels: Sequence[str], column: str) -> float:
    if labels:
        if str(value) in labels:
            return labels.index(str(value))
        if isinstance(value, int | np.integer) and 0 <= int(value) < len(labels):
            return int(value)
        raise DataError(f"{column} label {value!r} is outside the set; allowed: {', '.join(labels)}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(f"{column} {value!r} is no number; name the labels with labels=") from None
    if not np.isfinite(number):
        raise DataError(f"{column} holds {value!r}; every item needs a finite number")
    return number
