"""Whether a model is right as often as it says: reliability, expected calibration error, Brier score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from workbench.errors import DataError, NumericsError, RunError
from workbench.estimate import Estimate
from workbench.evaluate.compare_items import task_examples
from workbench.evaluate.temperature import TemperatureScaling, mean_loss, scaled_by_halves
from workbench.runs import Run, reads_runs
from workbench.shapes import Array
from workbench.statistics import Statistic, bootstrap, wilson

__all__ = ["Calibration", "ReliabilityBin", "calibration", "calibration_of"]

_RESAMPLES = 1000
_PROBABILITIES = ("probabilities", "choice_probabilities")
_SCORES = ("choice_log_probabilities", "log_probabilities", "logits", "scores")
_GOLD = ("gold", "label", "answer")


@dataclass(frozen=True)
class ReliabilityBin:
    """Items whose confidence lies from ``low`` to ``high``: their mean confidence, and how many were right."""

    low: float
    high: float
    confidence: float
    accuracy: Estimate


@dataclass(frozen=True)
class Calibration:
    """``bins`` for the reliability diagram, two errors of calibration, and the Brier score.

    ``expected_error`` is the mean over items of the distance between confidence and accuracy of their bin (Guo et al.
    2017, equation 3). It is above 0 by chance alone, the more so with few items: it has no interval, but ``by_chance``,
    the mean and the 95 % quantile of what a calibrated model of these confidences would have (the consistency
    resampling of Bröcker & Smith 2007, who draw the confidences anew as well). ``debiased_error`` is the root of the
    mean squared distance less what chance adds to it, with a bootstrap interval, whose lower end is 0 for a model that
    may be calibrated. This is the estimator of Kumar, Liang & Ma 2019 with the variance of the distances for that of
    the labels, since confidences differ within a bin; bins of one item are left out. ``brier`` is the mean squared
    distance between probabilities and truth, summed over classes, from 0 to 2 (Brier 1950). ``scaled`` is what one
    temperature makes of it, fitted on other items; ``None`` of one item.
    """

    task: str
    bins: tuple[ReliabilityBin, ...]
    expected_error: Estimate
    by_chance: tuple[float, float]
    debiased_error: Estimate
    brier: Estimate
    accuracy: float
    confidence: float
    scaled: TemperatureScaling | None = None

    def to_statistic(self) -> Statistic:
        """Accuracy of each bin, for figures and tables."""
        return Statistic(
            name=f"reliability on {self.task}",
            unit="share right",
            values=np.array([b.accuracy.value for b in self.bins]),
            axes=("confidence",),
            labels={"confidence": tuple(f"{b.low:.2f} to {b.high:.2f}" for b in self.bins)},
            standard_error=np.array([b.accuracy.standard_error for b in self.bins]),
        )


@reads_runs
def calibration(run: Run, task: str, *, bins: int = 10, seed: int = 0) -> Calibration:
    """Calibration of a classification or multiple-choice task of ``run``, from the scores of its choices.

    Scores that are no probabilities go through a softmax. Raises :class:`~workbench.errors.RunError` if the run
    stores no scores of all choices.
    """
    rows = task_examples(run, task)
    probabilities, gold = _choices(rows, run.path.name, task)
    clusters = (
        rows["cluster"].astype(str).to_numpy()
        if "cluster" in rows and rows["cluster"].notna().all()
        else None
    )
    return calibration_of(probabilities, gold, task=task, bins=bins, seed=seed, clusters=clusters)


def calibration_of(
    probabilities: Sequence[Sequence[float]],
    gold: Sequence[int],
    *,
    task: str = "",
    bins: int = 10,
    seed: int = 0,
    clusters: Array | None = None,
) -> Calibration:
    """Calibration of predicted distributions (one list an item, of any number of classes) against gold classes.

    Bins are of equal width over 0 to 1; empty ones are left out. Raises :class:`~workbench.errors.DataError` for lists
    of unequal length or a gold class outside a distribution, :class:`~workbench.errors.NumericsError` for NaN.
    """
    _check(probabilities, gold, bins)
    rows = [np.asarray(p, float) for p in probabilities]
    confidence = np.array([p.max() for p in rows])
    right = np.array([float(p.argmax() == g) for p, g in zip(rows, gold, strict=True)])
    squared = np.array([(p**2).sum() - 2 * p[g] + 1 for p, g in zip(rows, gold, strict=True)])
    places = np.minimum((confidence * bins).astype(int), bins - 1)
    chance = _by_chance(confidence, places, bins, seed)
    expected = Estimate.without_interval(
        _expected_error(confidence - right, places, bins),
        len(right),
        f"by chance alone a calibrated model has {chance[0]:.4f}, and up to {chance[1]:.4f}",
        method="bins of equal width",
        higher_is_better=False,
    )
    return Calibration(
        task=task,
        bins=tuple(_bin(k, bins, confidence, right, places) for k in range(bins) if (places == k).any()),
        expected_error=expected,
        by_chance=chance,
        debiased_error=_debiased(confidence - right, places, bins, seed, clusters),
        brier=bootstrap(squared, seed=seed, higher_is_better=False, clusters=clusters),
        accuracy=float(right.mean()),
        confidence=float(confidence.mean()),
        scaled=_scaled(rows, gold, bins, seed, clusters),
    )


def _scaled(
    rows: Sequence[Array], gold: Sequence[int], bins: int, seed: int, clusters: Array | None
) -> TemperatureScaling | None:
    found = scaled_by_halves([row.tolist() for row in rows], gold, seed=seed, clusters=clusters)
    if found is None:
        return None
    temperatures, before, after = found
    confidence = np.exp(after.max(1))
    places = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = confidence - (after.argmax(1) == np.asarray(gold))
    return TemperatureScaling(
        temperatures, _expected_error(gaps, places, bins), mean_loss(after, gold), mean_loss(before, gold)
    )


def _expected_error(gaps: Array, places: Array, bins: int) -> float:
    return float(np.abs(np.bincount(places, weights=gaps, minlength=bins)).sum() / len(gaps))


def _by_chance(confidence: Array, places: Array, bins: int, seed: int) -> tuple[float, float]:
    """Mean and 95 % quantile of the expected error where each item is right with its own confidence."""
    rng = np.random.default_rng(seed)
    found = [
        _expected_error(confidence - (rng.random(len(confidence)) < confidence), places, bins)
        for _ in range(_RESAMPLES)
    ]
    return float(np.mean(found)), float(np.quantile(found, 0.95))


def _debiased(gaps: Array, places: Array, bins: int, seed: int, clusters: Array | None) -> Estimate:
    """Root of the debiased squared error with the basic (reverse percentile) bootstrap's interval, on both scales.

    A resample's bias is known: its bins scatter around the sample's own. Squares are too narrow above and roots
    too high below, so the lower end is the lower of both.
    """
    labels = np.arange(len(gaps)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    count = int(labels.max()) + 1
    rng, squares = np.random.default_rng(seed), []
    for _ in range(_RESAMPLES):
        times = np.bincount(rng.integers(count, size=count), minlength=count)[labels]  # each item was drawn
        squares.append(_squared_error(gaps, places, bins, times)[1])
    plain, debiased = _squared_error(gaps, places, bins)
    name, value = "basic bootstrap", _root(max(debiased, 0.0))
    if count < 2:
        why = "one item has no spread"
        return Estimate.without_interval(value, count, why, method=name, higher_is_better=False)
    roots = _root(np.array(squares))
    low = min(
        _root(debiased - float(np.quantile(squares, 0.975)) + plain),
        _root(debiased) - float(np.quantile(roots, 0.975)) + _root(plain),
    )
    high = _root(debiased) - float(np.quantile(roots, 0.025)) + _root(plain)
    return Estimate(
        value=value,
        standard_error=float(np.std(roots, ddof=1)),
        low=max(low, 0.0),
        high=max(high, value),
        n=count,
        method=name,
        higher_is_better=False,
    )


def _squared_error(gaps: Array, places: Array, bins: int, times: Array | None = None) -> tuple[float, float]:
    """Mean squared distance over the items' bins, as it is and less its expectation by chance.

    Each item counts ``times`` (once, if that is not given).
    """
    weights = np.ones(len(gaps)) if times is None else times
    counts, sums, squares = (
        np.bincount(places, weights=weights * power, minlength=bins) for power in (1, gaps, gaps**2)
    )
    used = counts > 1
    means = sums[used] / counts[used]
    chance = (squares[used] / counts[used] - means**2) / (counts[used] - 1)
    shares = counts[used] / weights.sum()
    return float((shares * means**2).sum()), float((shares * (means**2 - chance)).sum())


def _root(square: Any) -> Any:
    """The root of a square's size with the square's sign."""
    return np.sign(square) * np.sqrt(np.abs(square))


def _bin(k: int, bins: int, confidence: Array, right: Array, places: Array) -> ReliabilityBin:
    inside = places == k
    accuracy = wilson(int(right[inside].sum()), int(inside.sum()))
    return ReliabilityBin(k / bins, (k + 1) / bins, float(confidence[inside].mean()), accuracy)


def _check(probabilities: Sequence[Sequence[float]], gold: Sequence[int], bins: int) -> None:
    if len(probabilities) != len(gold) or not len(gold) or bins < 1:
        raise DataError(
            f"calibration needs one gold class for each item, got {len(gold)} for {len(probabilities)}"
        )
    for place, (p, g) in enumerate(zip(probabilities, gold, strict=True)):
        values = np.asarray(p, float)
        if not np.isfinite(values).all():
            raise NumericsError(f"item {place} has probabilities that are NaN or infinite: {p!r:.80}")
        if not 0 <= g < len(values):
            raise DataError(f"item {place}: gold class {g} is not among its {len(values)} probabilities")
        if values.min() < 0 or abs(values.sum() - 1) > 1e-3:
            raise NumericsError(f"item {place}: probabilities must be 0 or more and sum to 1, got {p!r:.80}")


def _choices(rows: pd.DataFrame, run: str, task: str) -> tuple[list[list[float]], list[int]]:
    column = next((name for name in (*_PROBABILITIES, *_SCORES) if name in rows), None)
    gold = next((name for name in _GOLD if name in rows), None)
    if column is None or gold is None:
        raise RunError(
            f"{run} stores no scores of all choices of {task!r}; calibration is of classification and "
            "multiple choice"
        )
    tables = [_scores(value) for value in rows[column]]
    as_they_are = column in _PROBABILITIES
    distributions = [list(t.values()) if as_they_are else list(softmax(list(t.values()))) for t in tables]
    places = [_place(value, list(t)) for value, t in zip(rows[gold], tables, strict=True)]
    return distributions, places


def _scores(value: Any) -> dict[str, float]:
    """Scores by label; lists are labelled by position."""
    found = json.loads(value) if isinstance(value, str) else value
    if isinstance(found, dict):
        return {str(k): float(v) for k, v in found.items() if v is not None}
    return {str(k): float(v) for k, v in enumerate(found)}


def _place(gold: Any, labels: list[str]) -> int:
    name = str(int(gold)) if isinstance(gold, int | float | np.integer | np.floating) else str(gold)
    return labels.index(name) if name in labels else -1
