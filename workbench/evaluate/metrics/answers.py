"""Metrics of answers as texts; the columns hold SQuAD's exact match and F1 of each."""

from __future__ import annotations

from workbench.evaluate.metrics._metric import Mean

__all__ = ["EXACT_MATCH", "WORD_F1"]

EXACT_MATCH = Mean("exact_match", "exact", "share of answers equal to a gold answer after normalisation")
WORD_F1 = Mean("f1", "f1", "mean F1 of the words of predicted and gold answers")
