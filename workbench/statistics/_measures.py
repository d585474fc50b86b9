"""Metrics of a whole sample as functions of any resample of it; what a paired test compares two systems by."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import stats

from workbench.shapes import Array

__all__ = [
    "Measure",
    "bits_per_unit_measure",
    "f1_measure",
    "macro_f1_measure",
    "matthews_measure",
    "mean_measure",
    "pearson_measure",
    "perplexity_measure",
    "spearman_measure",
    "unit_perplexity_measure",
]


class Measure(Protocol):
    """Reduces what a system did on each item, shape (..., item, column), to its metric, shape (...)."""

    def __call__(self, sample: Array, /) -> Any:
        """The metric of each resample along the leading axes."""


def mean_measure(sample: Array) -> Any:
    """The mean of the only column: accuracy of right (1) and wrong (0), or the mean of any score."""
    return sample[..., 0].mean(-1)


def perplexity_measure(sample: Array) -> Any:
    """exp of the mean loss, of a column of losses (nats)."""
    with np.errstate(over="ignore"):
        return np.exp(sample[..., 0].mean(-1))


def f1_measure(sample: Array) -> Any:
    """F1 of class 1; columns are predicted and gold. 0 where neither has a 1."""
    predicted, gold = sample[..., 0] == 1, sample[..., 1] == 1
    hits = (predicted & gold).sum(-1)
    return 2 * hits / np.maximum(1, predicted.sum(-1) + gold.sum(-1))


def macro_f1_measure(sample: Array) -> Any:
    """Unweighted mean of every class's F1, over the classes in the gold or predicted column of a resample."""
    scores, present = [], []
    for label in np.unique(sample):
        predicted, gold = sample[..., 0] == label, sample[..., 1] == label
        hits, total = (predicted & gold).sum(-1), predicted.sum(-1) + gold.sum(-1)
        scores.append(2 * hits / np.maximum(1, total))
        present.append(total > 0)
    return np.sum(scores, axis=0) / np.maximum(1, np.sum(present, axis=0))


def matthews_measure(sample: Array) -> Any:
    """Matthews' correlation of any number of classes (Gorodkin 2004, equation 8); 0 where a column is constant."""
    n = sample.shape[-2]
    hits = (sample[..., 0] == sample[..., 1]).sum(-1).astype(float)
    products, squares = np.zeros(hits.shape), [np.zeros(hits.shape), np.zeros(hits.shape)]
    for label in np.unique(sample):
        counts = [(sample[..., column] == label).sum(-1).astype(float) for column in (0, 1)]
        products = products + counts[0] * counts[1]
        squares = [total + count**2 for total, count in zip(squares, counts, strict=True)]
    spread = np.sqrt((n**2 - squares[0]) * (n**2 - squares[1]))
    return np.where(spread > 0, (hits * n - products) / np.where(spread > 0, spread, 1), 0.0)


def pearson_measure(sample: Array) -> Any:
    """Pearson's correlation of the two columns; 0 where one is constant."""
    centred = sample - sample.mean(-2, keepdims=True)
    x, y = centred[..., 0], centred[..., 1]
    spread = np.sqrt((x**2).sum(-1) * (y**2).sum(-1))
    return np.where(spread > 1e-12, (x * y).sum(-1) / np.where(spread > 1e-12, spread, 1), 0.0)


def spearman_measure(sample: Array) -> Any:
    """Spearman's correlation of the two columns, ties sharing their mean rank; 0 where one is constant."""
    return pearson_measure(stats.rankdata(sample, axis=-2))


def unit_perplexity_measure(sample: Array) -> Any:
    """exp of total loss over total units; columns are a text's loss (nats) and its tokens, words or bytes."""
    with np.errstate(over="ignore"):
        return np.exp(sample[..., 0].sum(-1) / sample[..., 1].sum(-1))


def bits_per_unit_measure(sample: Array) -> Any:
    """Total loss in bits over total units; columns as in :func:`unit_perplexity_measure`."""
    return sample[..., 0].sum(-1) / sample[..., 1].sum(-1) / np.log(2)
