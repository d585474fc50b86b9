"""What a metric is, and the four forms that all of them have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from workbench.errors import NumericsError
from workbench.shapes import Array
from workbench.statistics import (
    Estimate,
    Measure,
    bootstrap,
    f1_measure,
    macro_f1_measure,
    matthews_measure,
    mean_estimate,
    measure_estimate,
    pearson_measure,
    span_f1_measure,
    span_precision_measure,
    span_recall_measure,
    spearman_measure,
)

__all__ = [
    "ACCURACY",
    "ENTITY_METRICS",
    "EXACT_MATCH",
    "F1",
    "MACRO_F1",
    "MATTHEWS",
    "PEARSON",
    "PERPLEXITIES",
    "SPEARMAN",
    "WORD_F1",
    "Mean",
    "Metric",
    "OfMeasure",
    "OfRows",
    "OfSums",
    "exact_groups",
]

_SLOW_RESAMPLES = 500


class Metric(Protocol):
    """A number over example rows, with its interval. Rows of equal ``cluster`` are resampled together."""

    @property
    def name(self) -> str:
        """As it stands in results."""

    @property
    def about(self) -> str:
        """One line: what it is, and its source."""

    @property
    def higher_is_better(self) -> bool | None:
        """Which way is better."""

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """The metric over all rows; raises :class:`~workbench.errors.NumericsError` for NaN or no rows."""


@dataclass(frozen=True)
class Mean:
    """The mean of a column: for 0 and 1 with Wilson's interval, else bootstrapped.

    With ``where``, a column and a value, only of rows that have it; of none the mean is undefined.
    """

    name: str
    column: str
    about: str = ""
    higher_is_better: bool | None = True
    where: tuple[str, str | bool] | None = None

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """The mean with its interval."""
        _check_rows(self.name, examples)
        if self.where is not None:
            column, value = self.where
            examples = examples[examples[column] == value]
            if examples.empty:
                why = f"no item has {column} {value!r}"
                return Estimate.without_interval(math.nan, 0, why, method="wilson")
        values = examples[self.column].to_numpy(float)
        found = mean_estimate(values, seed=seed, clusters=_clusters(examples))
        return replace(found, higher_is_better=self.higher_is_better)


@dataclass(frozen=True)
class OfMeasure:
    """A :class:`~workbench.statistics.Measure` of some columns: F1, correlation."""

    name: str
    columns: tuple[str, ...]
    measure: Measure
    about: str = ""
    higher_is_better: bool = True

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """The metric with its bootstrap interval over rows, or over clusters of rows."""
        _check_rows(self.name, examples)
        return measure_estimate(
            examples[list(self.columns)].to_numpy(float),
            self.measure,
            seed=seed,
            clusters=_clusters(examples),
            higher_is_better=self.higher_is_better,
        )


@dataclass(frozen=True)
class OfSums:
    """A function of sums over rows: perplexity, BLEU.

    ``parts`` gives (item, k) numbers, ``value`` turns their sums (..., k) into the metric (...).
    """

    name: str
    parts: Callable[[pd.DataFrame], Array]
    value: Callable[[Array], Any]
    about: str = ""
    higher_is_better: bool = True
    resamples: int = 2000

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """The metric with its bootstrap interval over rows, or over clusters of rows."""
        _check_rows(self.name, examples)
        parts = np.asarray(self.parts(examples), dtype=float)
        if not np.isfinite(parts).all():
            raise NumericsError(f"{self.name}: {int((~np.isfinite(parts)).any(1).sum())} rows are not finite")
        clusters = _clusters(examples)
        if clusters is not None:
            parts = _summed(parts, clusters)
        count = len(parts)

        def of_drawn(drawn: Array, axis: int = -1) -> Any:
            flat = drawn.reshape(-1, count).astype(np.int64)
            rows = np.arange(len(flat))[:, None] * count
            counts = np.bincount((rows + flat).ravel(), minlength=flat.size).reshape(flat.shape)
            return np.asarray(self.value(counts @ parts)).reshape(drawn.shape[:-1])

        found = bootstrap(
            np.arange(count),
            of_drawn,
            seed=seed,
            resamples=self.resamples,
            higher_is_better=self.higher_is_better,
        )
        if clusters is None:
            return found
        reason = found.undefined and found.undefined.replace("one item", "one cluster")
        return replace(found, method=f"{found.method} over clusters", undefined=reason)


@dataclass(frozen=True)
class OfRows:
    """Any function of rows; computed anew for each resample, so resampled less often."""

    name: str
    value: Callable[[pd.DataFrame], float]
    about: str = ""
    higher_is_better: bool = True

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """The metric with its bootstrap interval."""
        _check_rows(self.name, examples)

        def of_drawn(drawn: Array, axis: int = -1) -> Any:
            def of_one(rows: Array) -> float:
                return self.value(examples.iloc[rows.astype(int)])

            return np.apply_along_axis(of_one, axis, drawn)

        return bootstrap(
            np.arange(len(examples)),
            of_drawn,
            seed=seed,
            resamples=_SLOW_RESAMPLES,
            clusters=_clusters(examples),
            higher_is_better=self.higher_is_better,
        )


def _check_rows(name: str, examples: pd.DataFrame) -> None:
    if examples.empty:
        raise NumericsError(f"{name} of no items; check --limit, the slice, or the data file")


def _clusters(examples: pd.DataFrame) -> Array | None:
    """The cluster of each row; none where every row is one of its own."""
    if "cluster" not in examples or examples["cluster"].nunique() == len(examples):
        return None
    return examples["cluster"].astype(str).to_numpy()


def _summed(parts: Array, clusters: Array) -> Array:
    codes = np.unique(clusters, return_inverse=True)[1]
    sums = np.zeros((codes.max() + 1, parts.shape[1]))
    np.add.at(sums, codes, parts)
    return sums


EXACT_MATCH = Mean("exact_match", "exact", "share of answers equal to a gold answer after normalisation")


WORD_F1 = Mean("f1", "f1", "mean F1 of the words of predicted and gold answers")


_LABELS = ("prediction", "gold")


ACCURACY = Mean("accuracy", "correct", "share of items whose predicted label is the gold one")


MATTHEWS = OfMeasure("matthews", _LABELS, matthews_measure, "Matthews correlation of labels (Gorodkin 2004)")


F1 = OfMeasure("f1", _LABELS, f1_measure, "F1 of label 1")


MACRO_F1 = OfMeasure("macro_f1", _LABELS, macro_f1_measure, "mean of the labels' F1, over labels that occur")


def _all_right(examples: pd.DataFrame) -> float:
    return float(examples.groupby("group")["correct"].all().mean())


def exact_groups(name: str = "exact_match") -> OfRows:
    """Share of groups (column ``group``) whose items are all right: EM0 of MultiRC (Khashabi et al. 2018)."""
    return OfRows(name, _all_right, "share of questions whose every answer is judged right")


_SCORES = ("prediction", "gold")


PEARSON = OfMeasure("pearson", _SCORES, pearson_measure, "Pearson correlation of predicted and gold scores")


SPEARMAN = OfMeasure(
    "spearman", _SCORES, spearman_measure, "Spearman rank correlation of predicted and gold scores"
)


_COUNTS = ("entities_right", "entities_predicted", "entities_gold")


ENTITY_METRICS = (
    OfMeasure("entity_f1", _COUNTS, span_f1_measure, "F1 of entities"),
    OfMeasure("entity_precision", _COUNTS, span_precision_measure, "precision of entities"),
    OfMeasure("entity_recall", _COUNTS, span_recall_measure, "recall of entities"),
)


def _parts(unit: str) -> Any:
    return lambda examples: examples[["log_probability", unit]].to_numpy(float)


def _perplexity(sums: Array) -> Any:
    with np.errstate(over="ignore"):
        return np.exp(-sums[..., 0] / sums[..., 1])


def _bits(sums: Array) -> Any:
    return -sums[..., 0] / sums[..., 1] / np.log(2)


PERPLEXITIES = (
    *(
        OfSums(
            f"{name}_perplexity",
            _parts(unit),
            _perplexity,
            f"exp of the mean loss per {name}",
            higher_is_better=False,
        )
        for name, unit in (("token", "tokens"), ("word", "words"), ("byte", "bytes"))
    ),
    OfSums("bits_per_byte", _parts("bytes"), _bits, "mean loss per byte in bits", higher_is_better=False),
)
