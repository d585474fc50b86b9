"""Metrics of numbers: columns ``prediction`` and ``gold``."""

from __future__ import annotations

from workbench.evaluate.metrics._metric import OfMeasure
from workbench.statistics import pearson_measure, spearman_measure

__all__ = ["PEARSON", "SPEARMAN"]

_SCORES = ("prediction", "gold")

PEARSON = OfMeasure("pearson", _SCORES, pearson_measure, "Pearson correlation of predicted and gold scores")
SPEARMAN = OfMeasure(
    "spearman", _SCORES, spearman_measure, "Spearman rank correlation of predicted and gold scores"
)
