"""Metrics of a whole sample as functions of any resample of it; labelled spans compared with gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from scipy import stats

from workbench.errors import NumericsError
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics._bootstrap import bootstrap

__all__ = [
    "Measure",
    "bits_per_unit_measure",
    "f1_measure",
    "kappa_measure",
    "label_spans",
    "macro_f1_measure",
    "matthews_measure",
    "mean_measure",
    "measure_estimate",
    "pearson_measure",
    "perplexity_measure",
    "span_f1_measure",
    "span_precision_measure",
    "span_recall_measure",
    "spearman_measure",
    "unit_perplexity_measure",
]


class Measure(Protocol):
    """Reduces what a system did on each item, shape (..., item, column), to its metric, shape (...)."""

    def __call__(self, sample: Array, /) -> Any:
        """The metric of each resample along the leading axes."""


def measure_estimate(
    sample: Array,
    measure: Measure,
    *,
    seed: int,
    clusters: Array | Sequence[Any] | None = None,
    resamples: int = 2000,
    higher_is_better: bool = True,
) -> Estimate:
    """``measure`` of ``sample`` (item, column) with its bootstrap interval over items, or over clusters of them.

    Where it has no value the estimate says why. Raises :class:`~workbench.errors.NumericsError` as
    :func:`bootstrap` does.
    """
    table = np.asarray(sample, dtype=float)
    bad = ~np.isfinite(table).all(-1)
    if bad.any():
        raise NumericsError(
            f"{int(bad.sum())} of {len(table)} items are not finite, the first at {bad.argmax()}"
        )

    def of_drawn(drawn: Array, axis: int = -1) -> Any:
        return measure(table[drawn.astype(np.int64)])

    return bootstrap(
        np.arange(len(table)),
        of_drawn,
        seed=seed,
        clusters=clusters,
        resamples=resamples,
        higher_is_better=higher_is_better,
        undefined=_why_undefined(measure, table),
    )


def _why_undefined(measure: Measure, table: Array) -> str:
    """The reason for which a measure has no value on these items."""
    if measure in (matthews_measure, pearson_measure, spearman_measure):
        names = ("every prediction", "every gold value")
        columns = zip(names, table.T, strict=True)
        return " and ".join(f"{name} is {column[0]:g}" for name, column in columns if np.ptp(column) == 0)
    reasons: dict[Measure, str] = {
        kappa_measure: "both judges give one and the same label throughout",
        f1_measure: "no item is of class 1, predicted or gold",
        span_f1_measure: "there are no spans, predicted or gold",
        span_precision_measure: "no span is predicted",
        span_recall_measure: "there are no gold spans",
    }
    return reasons.get(measure, "the measure has no value on these items")


def mean_measure(sample: Array) -> Any:
    """The mean of the only column: accuracy of right (1) and wrong (0), or the mean of any score."""
    return sample[..., 0].mean(-1)


def perplexity_measure(sample: Array) -> Any:
    """exp of the mean loss, of a column of losses (nats)."""
    with np.errstate(over="ignore"):
        return np.exp(sample[..., 0].mean(-1))


def f1_measure(sample: Array) -> Any:
    """F1 of class 1; columns are predicted and gold. NaN where neither has a 1."""
    predicted, gold = sample[..., 0] == 1, sample[..., 1] == 1
    return _share(2 * (predicted & gold).sum(-1), predicted.sum(-1) + gold.sum(-1))


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
    """Matthews' correlation of any number of classes (Gorodkin 2004); NaN where a column is constant."""
    n = sample.shape[-2]
    hits = (sample[..., 0] == sample[..., 1]).sum(-1).astype(float)
    products, squares = np.zeros(hits.shape), [np.zeros(hits.shape), np.zeros(hits.shape)]
    for label in np.unique(sample):
        counts = [(sample[..., column] == label).sum(-1).astype(float) for column in (0, 1)]
        products = products + counts[0] * counts[1]
        squares = [total + count**2 for total, count in zip(squares, counts, strict=True)]
    spread = np.sqrt((n**2 - squares[0]) * (n**2 - squares[1]))
    return _share(hits * n - products, spread)


def kappa_measure(sample: Array) -> Any:
    """Cohen's kappa (1960) of two judges' labels, one a column: agreement beyond chance, for any number of labels.

    Chance is what their own shares of each label would give. NaN where both give one and the same label throughout.
    """
    n = sample.shape[-2]
    observed = (sample[..., 0] == sample[..., 1]).mean(-1)
    expected = np.zeros(observed.shape)
    for label in np.unique(sample):
        counts = [(sample[..., column] == label).sum(-1).astype(float) for column in (0, 1)]
        expected = expected + counts[0] * counts[1] / n**2
    return _share(observed - expected, 1.0 - expected)


def span_f1_measure(sample: Array) -> Any:
    """F1 of spans; columns are each item's spans found and right, predicted, and gold. NaN where there is none."""
    right, predicted, gold = np.moveaxis(sample.sum(-2), -1, 0)
    return _share(2 * right, predicted + gold)


def span_precision_measure(sample: Array) -> Any:
    """Share of predicted spans that are right; columns as in :func:`span_f1_measure`."""
    right, predicted, _ = np.moveaxis(sample.sum(-2), -1, 0)
    return _share(right, predicted)


def span_recall_measure(sample: Array) -> Any:
    """Share of gold spans that were found; columns as in :func:`span_f1_measure`."""
    right, _, gold = np.moveaxis(sample.sum(-2), -1, 0)
    return _share(right, gold)


def _share(above: Array, below: Array) -> Any:
    """``above / below``, NaN where that is 0."""
    return np.divide(above, below, out=np.full(np.shape(below), np.nan), where=np.asarray(below) > 0)


def pearson_measure(sample: Array) -> Any:
    """Pearson's correlation of the two columns; NaN where one is constant."""
    centred = sample - sample.mean(-2, keepdims=True)
    x, y = centred[..., 0], centred[..., 1]
    varies = (np.ptp(sample, axis=-2) > 0).all(-1)  # rounding leaves some of a centred constant
    spread = np.sqrt((x**2).sum(-1) * (y**2).sum(-1))
    return _share((x * y).sum(-1), np.where(varies, spread, 0.0))


def spearman_measure(sample: Array) -> Any:
    """Spearman's correlation of the two columns, ties sharing their mean rank; NaN where one is constant."""
    return pearson_measure(stats.rankdata(sample, axis=-2))


def unit_perplexity_measure(sample: Array) -> Any:
    """exp of total loss over total units; columns are a text's loss (nats) and its tokens, words or bytes."""
    with np.errstate(over="ignore"):
        return np.exp(sample[..., 0].sum(-1) / sample[..., 1].sum(-1))


def bits_per_unit_measure(sample: Array) -> Any:
    """Total loss in bits over total units; columns as in :func:`unit_perplexity_measure`."""
    return sample[..., 0].sum(-1) / sample[..., 1].sum(-1) / np.log(2)


def label_spans(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    """Start, end (exclusive) and type of each span in IOB1 or IOB2 labels; ``I-`` after another type starts one.

    As the evaluation of Tjong Kim Sang & De Meulder 2003 reads them. The type of labels that are ``B`` and ``I`` alone
    is empty.
    """
    spans: set[tuple[int, int, str]] = set()
    start: int = 0
    kind: str | None = None
    for place, label in enumerate([*labels, "O"]):
        mark, _, name = label.partition("-")
        if kind is not None and not (mark == "I" and name == kind):
            spans.add((start, place, kind))
            kind = None
        if kind is None and mark in ("B", "I"):
            start, kind = place, name
    return spans
