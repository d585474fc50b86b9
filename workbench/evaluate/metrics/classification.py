"""Metrics of labels: columns ``prediction`` and ``gold`` hold label numbers from 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from workbench.evaluate.metrics._metric import Mean, OfRows, OfSums
from workbench.shapes import Array

__all__ = ["ACCURACY", "F1", "MACRO_F1", "MATTHEWS", "confusion", "exact_groups"]


def confusion(examples: pd.DataFrame) -> Array:
    """(item, labels * labels): 1 at gold * labels + predicted."""
    predicted, gold = examples["prediction"].to_numpy(int), examples["gold"].to_numpy(int)
    labels = int(max(predicted.max(), gold.max(), 1)) + 1
    table = np.zeros((len(gold), labels * labels))
    table[np.arange(len(gold)), gold * labels + predicted] = 1
    return table


def _square(sums: Array) -> Array:
    """(..., gold, predicted) counts."""
    labels = round(sums.shape[-1] ** 0.5)
    return sums.reshape(*sums.shape[:-1], labels, labels)


def _matthews(sums: Array) -> Any:
    """Gorodkin 2004, equation 8; 0 where predictions or gold are constant, as scikit-learn gives."""
    counts = _square(sums)
    total = counts.sum((-2, -1))
    gold, predicted = counts.sum(-1), counts.sum(-2)
    shared = np.trace(counts, axis1=-2, axis2=-1) * total - (gold * predicted).sum(-1)
    spread = np.sqrt((total**2 - (predicted**2).sum(-1)) * (total**2 - (gold**2).sum(-1)))
    return np.divide(shared, spread, out=np.zeros_like(shared), where=spread > 0)


def _label_f1(counts: Array) -> Array:
    """F1 of each label (..., labels); 0 where it is neither gold nor predicted."""
    hits = np.diagonal(counts, axis1=-2, axis2=-1)
    total = counts.sum(-1) + counts.sum(-2)
    return np.divide(2 * hits, total, out=np.zeros_like(hits), where=total > 0)


def _f1(sums: Array) -> Any:
    return _label_f1(_square(sums))[..., 1]


def _macro_f1(sums: Array) -> Any:
    counts = _square(sums)
    seen = counts.sum(-1) + counts.sum(-2) > 0
    return _label_f1(counts).sum(-1) / np.maximum(seen.sum(-1), 1)


ACCURACY = Mean("accuracy", "correct", "share of items whose predicted label is the gold one")
MATTHEWS = OfSums("matthews", confusion, _matthews, "Matthews correlation of labels (Gorodkin 2004)")
F1 = OfSums("f1", confusion, _f1, "F1 of label 1")
MACRO_F1 = OfSums("macro_f1", confusion, _macro_f1, "mean of the labels' F1, over labels that occur")


def _all_right(examples: pd.DataFrame) -> float:
    return float(examples.groupby("group")["correct"].all().mean())


def exact_groups(name: str = "exact_match") -> OfRows:
    """Share of groups (column ``group``) whose items are all right: MultiRC's exact match, Khashabi et al. 2018."""
    return OfRows(name, _all_right, "share of questions whose every answer is judged right")
