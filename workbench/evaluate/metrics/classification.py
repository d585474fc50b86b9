"""Metrics of labels: columns ``prediction`` and ``gold`` hold label numbers from 0."""

from __future__ import annotations

import pandas as pd

from workbench.evaluate.metrics._metric import Mean, OfMeasure, OfRows
from workbench.statistics import f1_measure, macro_f1_measure, matthews_measure

__all__ = ["ACCURACY", "F1", "MACRO_F1", "MATTHEWS", "exact_groups"]

_LABELS = ("prediction", "gold")

ACCURACY = Mean("accuracy", "correct", "share of items whose predicted label is the gold one")
MATTHEWS = OfMeasure("matthews", _LABELS, matthews_measure, "Matthews correlation of labels (Gorodkin 2004)")
F1 = OfMeasure("f1", _LABELS, f1_measure, "F1 of label 1")
MACRO_F1 = OfMeasure("macro_f1", _LABELS, macro_f1_measure, "mean of the labels' F1, over labels that occur")


def _all_right(examples: pd.DataFrame) -> float:
    return float(examples.groupby("group")["correct"].all().mean())


def exact_groups(name: str = "exact_match") -> OfRows:
    """Share of groups (column ``group``) whose items are all right: MultiRC's exact match, Khashabi et al. 2018."""
    return OfRows(name, _all_right, "share of questions whose every answer is judged right")
