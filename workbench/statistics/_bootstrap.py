"""Bootstrap intervals: of single items, or of whole clusters where items are not independent."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from scipy import stats

from workbench.errors import NumericsError
from workbench.estimate import Estimate
from workbench.shapes import Array

__all__ = ["AxisStatistic", "bootstrap"]

# Fewer values have too few different resamples for a distribution of t.
_FEWEST_FOR_T = 5
# Resampled values held at once: 32 MiB of float64, whatever the number of items.
_BATCH_VALUES = 4 * 2**20


class AxisStatistic(Protocol):
    """Reduces one axis of an array, as ``np.mean`` and ``np.median`` do."""

    def __call__(self, values: Array, /, *, axis: int) -> Any:
        """The statistic along ``axis``."""


def bootstrap(
    values: Array | Sequence[float],
    statistic: AxisStatistic = np.mean,
    *,
    seed: int,
    resamples: int = 2000,
    confidence: float = 0.95,
    clusters: Array | Sequence[Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    higher_is_better: bool = True,
    undefined: str = "the statistic has no value on these items",
) -> Estimate:
    """``transform(statistic(values))`` with its standard error and bootstrap interval.

    ``values`` has shape (item,). ``transform`` is monotone and acts on the statistic of the sample and of every
    resample: a perplexity is ``bootstrap(nll, transform=np.exp, higher_is_better=False, seed=0)``. With ``clusters``
    (item,), items of equal label are drawn together and ``n`` counts the clusters.

    The standard error is the standard deviation of the resamples; of a mean of independent items it is, as in lm-eval,
    the deviation of the items (with n - 1) over the square root of n.

    The interval of a mean of 5 or more independent items is the bootstrap-t of Efron & Tibshirani (1993), section
    12.5, which follows skewed losses where few items make percentiles too narrow. Where a resample is all alike, and
    for all else, it is their percentile interval (section 13.3), its quantiles spread as a t distribution's are
    (Hesterberg 2015). docs/numerics.md has the shares of samples that each covers. Where there is
    nothing to resample (one item, one cluster, resamples that are all alike) the interval is undefined; where the
    statistic is NaN the value is, for the reason given as ``undefined``. Resamples without a value are left out, and
    ``method`` says how many.

    Raises :class:`~workbench.errors.NumericsError` if a value is NaN or infinite, or if there is none.

    Example:
        ```python
        import workbench

        print(workbench.statistics.bootstrap([0.1, 0.4, 0.2, 0.5, 0.3], seed=0))
        ```
    """
    values = _finite(values)
    finish = transform or (lambda result: result)
    sample, on_sample = values, statistic
    if clusters is not None:
        sample, on_sample = _by_cluster(values, statistic, clusters)

    def transformed(resampled: Array, axis: int = -1) -> Any:
        with np.errstate(over="ignore"):  # exp of a huge loss is infinite, and shown so
            return finish(on_sample(resampled, axis=axis))

    value = float(transformed(sample))
    unit = "item" if clusters is None else "cluster"
    of_items = statistic is np.mean and clusters is None and len(values) >= _FEWEST_FOR_T
    found = _by_t(values, finish, seed, resamples, confidence) if of_items else None
    named = ("bootstrap-t" if found else "percentile bootstrap") + (" over clusters" * (clusters is not None))
    bare = Estimate.without_interval(
        value, len(sample), undefined, method=named, higher_is_better=higher_is_better
    )
    if math.isnan(value):
        return bare
    if len(sample) < 2:
        return replace(bare, undefined=f"one {unit} has no spread")
    if found is None:
        level = _spread(confidence, len(sample))
        found = _by_percentiles(sample, transformed, seed, resamples, level)
    error, low, high, left_out = found
    if statistic is np.mean and clusters is None and transform is None:
        error = float(values.std(ddof=1)) / math.sqrt(len(values))
    if left_out > resamples / 2:
        return replace(bare, undefined=f"{left_out} of {resamples} resamples have no value")
    method = named + (f", {left_out} of {resamples} resamples without a value" if left_out else "")
    return replace(
        bare, standard_error=error, low=low, high=high, confidence=confidence, method=method, undefined=None
    )


def _by_t(
    values: Array, transform: Callable[[Any], Any], seed: int, resamples: int, confidence: float
) -> tuple[float, float, float, int] | None:
    """What :func:`_by_percentiles` gives, by quantiles of each resample's t; ``None`` where a resample is all alike."""
    rng, n = np.random.default_rng(seed), len(values)
    batch = max(1, _BATCH_VALUES // n)
    means, errors = [], []
    for start in range(0, resamples, batch):
        drawn = values[rng.integers(n, size=(min(batch, resamples - start), n))]
        if (np.ptp(drawn, axis=-1) == 0).any():
            return None
        means.append(drawn.mean(-1))
        errors.append(drawn.std(-1, ddof=1) / math.sqrt(n))
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(n)
    tail = (1 - confidence) / 2
    reach = np.quantile((np.concatenate(means) - mean) / np.concatenate(errors), [tail, 1 - tail])
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = sorted(float(transform(mean - q * error)) for q in reach)
        spread = float(np.std(transform(np.concatenate(means)), ddof=1))
    return (math.inf if math.isnan(spread) else spread), low, high, 0


def _by_percentiles(
    sample: Array, statistic: Callable[..., Any], seed: int, resamples: int, confidence: float
) -> tuple[float, float, float, int]:
    """Standard error, lower and upper bound; the number of resamples that have no value."""
    with np.errstate(invalid="ignore"), warnings.catch_warnings():  # infinite replicates; equal values
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        result = stats.bootstrap(
            (sample,),
            statistic,
            confidence_level=confidence,
            n_resamples=resamples,
            vectorized=True,
            batch=max(1, _BATCH_VALUES // len(sample)),
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    low, high = map(float, result.confidence_interval)
    found = result.bootstrap_distribution[~np.isnan(result.bootstrap_distribution)]
    left_out = resamples - len(found)
    if math.isnan(low) and len(found):  # some have no value
        tail = (1 - confidence) / 2
        low, high = map(float, np.quantile(found, [tail, 1 - tail]))
    with np.errstate(invalid="ignore"):
        error = float(np.std(found, ddof=1)) if len(found) > 1 else math.nan
    return (math.inf if math.isnan(error) else error), low, high, left_out


def _spread(confidence: float, n: int) -> float:
    """The level at which normal quantiles are those of a t interval at ``confidence`` for a mean of ``n``."""
    if n < 2:
        return confidence
    reach = math.sqrt(n / (n - 1)) * stats.t.ppf(0.5 + confidence / 2, n - 1)
    return float(2 * stats.norm.cdf(reach) - 1)


def _finite(values: Array | Sequence[float]) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise NumericsError(f"an interval needs a list of numbers, got shape {array.shape}")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise NumericsError(
            f"{len(bad)} of {len(array)} values are not finite (the first at position {bad[0]}: "
            f"{array[bad[0]]}); find the items that produced them: workbench doctor MODEL"
        )
    return array


def _by_cluster(
    values: Array, statistic: AxisStatistic, clusters: Array | Sequence[Any]
) -> tuple[Array, Callable[..., Any]]:
    """Cluster numbers (cluster,), and the statistic as a function of drawn cluster numbers."""
    labels = np.asarray(clusters)
    if labels.shape != values.shape:
        raise NumericsError(f"clusters must label each of the {len(values)} values, got shape {labels.shape}")
    codes = np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(codes)
    if statistic is np.mean:
        sums = np.bincount(codes, weights=values)

        def mean_of_drawn(drawn: Array, axis: int = -1) -> Any:
            return sums[drawn].sum(axis) / counts[drawn].sum(axis)

        return np.arange(len(counts)), mean_of_drawn
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])

    def statistic_of_drawn(drawn: Array, axis: int = -1) -> Any:
        def of_one(numbers: Array) -> Any:
            return statistic(values[np.concatenate([members[k] for k in numbers])], axis=-1)

        return np.apply_along_axis(of_one, axis, drawn)

    return np.arange(len(counts)), statistic_of_drawn
