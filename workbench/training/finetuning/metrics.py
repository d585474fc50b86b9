"""From predictions to metrics, each with its interval over examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.estimate import Estimate
from workbench.statistics import (
    best_exact,
    best_f1,
    bootstrap,
    f1_measure,
    label_spans,
    macro_f1_measure,
    matthews_measure,
    mean_estimate,
    measure_estimate,
    pearson_measure,
    span_f1_measure,
    spearman_measure,
)
from workbench.training.finetuning.tasks import AnswerKind

__all__ = ["compute_metrics", "loss_changes"]


def compute_metrics(kind: AnswerKind, predicted: Sequence[Any], gold: Sequence[Any]) -> dict[str, Estimate]:
    """The metrics of a kind. ``predicted`` and ``gold`` hold label numbers, numbers, lists of labels, or texts."""
    if kind is AnswerKind.NUMBER:
        return _of_pairs({"pearson": pearson_measure, "spearman": spearman_measure}, predicted, gold)
    if kind is AnswerKind.RESPONSE:
        losses = np.asarray(predicted, dtype=float)
        return {
            "loss": bootstrap(losses, seed=0, higher_is_better=False),
            "perplexity": bootstrap(losses, seed=0, transform=np.exp, higher_is_better=False),
        }
    if kind is AnswerKind.SPAN:
        exact = [best_exact(p, [g]) for p, g in zip(predicted, gold, strict=True)]
        shared = [best_f1(p, [g]) for p, g in zip(predicted, gold, strict=True)]
        return {"exact_match": mean_estimate(exact, seed=0), "f1": mean_estimate(shared, seed=0)}
    if kind is AnswerKind.TOKENS:
        return _token_metrics(predicted, gold)
    found = {"accuracy": mean_estimate([float(p == g) for p, g in zip(predicted, gold, strict=True)], seed=0)}
    if kind is AnswerKind.CLASS:
        binary = {int(value) for value in [*gold, *predicted]} <= {0, 1}
        f1 = {"f1": f1_measure} if binary else {"macro_f1": macro_f1_measure}
        found |= _of_pairs({"matthews": matthews_measure, **f1}, predicted, gold)
    return found


def loss_changes(before: Sequence[float], after: Sequence[float]) -> dict[str, Estimate]:
    """The mean loss of each row's replies before training, and by how much training changed it, row by row."""
    change = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    return {
        "loss_before": bootstrap(before, seed=0, higher_is_better=False),
        "loss_change": bootstrap(change, seed=0, higher_is_better=False),
    }


def _of_pairs(measures: dict[str, Any], predicted: Sequence[Any], gold: Sequence[Any]) -> dict[str, Estimate]:
    pairs = np.stack([np.asarray(predicted, dtype=float), np.asarray(gold, dtype=float)], axis=1)
    return {name: measure_estimate(pairs, measure, seed=0) for name, measure in measures.items()}


def _token_metrics(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Estimate]:
    right = [float(a == b) for p, g in zip(predicted, gold, strict=True) for a, b in zip(p, g, strict=True)]
    counts = []
    for p, g in zip(predicted, gold, strict=True):
        a, b = label_spans(p), label_spans(g)
        counts.append((len(a & b), len(a), len(b)))
    return {
        "token_accuracy": bootstrap(right, seed=0),
        "span_f1": measure_estimate(np.array(counts), span_f1_measure, seed=0),
    }
