"""Intervals of proportions and means, of independent and of clustered cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from workbench.errors import NumericsError
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics._bootstrap import bootstrap

__all__ = ["clustered_wilson", "mean_estimate", "proportion", "wilson"]


def wilson(successes: int, n: int, confidence: float = 0.95, *, higher_is_better: bool = True) -> Estimate:
    """The proportion ``successes / n`` with the score interval of Wilson (1927).

    Unlike a bootstrap it keeps a width when all or none succeed. The standard error is lm-eval's,
    ``sqrt(p (1 - p) / (n - 1))``; that of one case is undefined, and the interval is Wilson's.

    Raises :class:`~workbench.errors.NumericsError` unless 0 <= successes <= n > 0.
    """
    if n < 1 or not 0 <= successes <= n:
        raise NumericsError(f"a proportion needs 0 <= successes <= n and n > 0, got {successes} of {n}")
    share = successes / n
    bounds = stats.binomtest(int(successes), int(n)).proportion_ci(confidence, method="wilson")
    return Estimate(
        value=share,
        standard_error=math.sqrt(share * (1 - share) / (n - 1)) if n > 1 else math.nan,
        low=float(bounds.low) if successes else 0.0,  # which rounding may miss
        high=float(bounds.high) if successes < n else 1.0,
        n=int(n),
        confidence=confidence,
        method="wilson",
        higher_is_better=higher_is_better,
        undefined=None if n > 1 else "one item has no spread",
    )


def proportion(hits: Sequence[bool], *, higher_is_better: bool = True) -> Estimate:
    """Share of true values with the interval of Wilson (1927), cases taken as independent."""
    return wilson(sum(map(bool, hits)), len(hits), higher_is_better=higher_is_better)


def clustered_wilson(
    hits: Sequence[bool],
    clusters: Sequence[Any],
    *,
    confidence: float = 0.95,
    higher_is_better: bool = True,
) -> Estimate:
    """Share of true values with Wilson's interval at the effective sample size and Student's t of the clusters.

    The variance of the share is that of a ratio over clusters (Cochran 1977, without the finite-population term); the
    sample size that would give it under independence, ``p (1 - p) / variance``, but never more than the number of
    cases, takes the place of n in Wilson's formula, and the quantile of t with one degree of freedom less than clusters
    that of the normal one (as Korn & Graubard 1998 do with another interval): the variance is estimated from few
    clusters. Where all cases agree each cluster counts as one independent case. Of one cluster the spread over clusters
    is unknown: its cases then count as independent, and the interval is about this template alone, which ``method``
    says.
    """
    values = np.asarray(hits, dtype=float)
    codes = np.unique(np.asarray([str(c) for c in clusters]), return_inverse=True)[1]
    if values.shape != codes.shape or not len(values):
        raise NumericsError(f"a share needs one cluster for each case, got {len(codes)} for {len(values)}")
    n, groups, share = len(values), int(codes.max()) + 1, float(values.mean())
    method = f"wilson over {groups} clusters"
    if groups == 1:
        return replace(
            proportion(hits, higher_is_better=higher_is_better), method="wilson within one cluster"
        )
    effective, quantile = float(groups), float(stats.norm.ppf(0.5 + confidence / 2))
    if 0 < share < 1:
        residuals = np.bincount(codes, weights=values - share)
        variance = groups / (groups - 1) * float((residuals**2).sum()) / n**2
        effective = min(n, share * (1 - share) / variance) if variance > 0 else n
        quantile = float(stats.t.ppf(0.5 + confidence / 2, groups - 1))
    low, high = _wilson_bounds(share, effective, quantile)
    return Estimate(
        value=share,
        standard_error=math.sqrt(share * (1 - share) / effective),
        low=low,
        high=high,
        n=n,
        confidence=confidence,
        method=method,
        higher_is_better=higher_is_better,
    )


def _wilson_bounds(share: float, n: float, quantile: float) -> tuple[float, float]:
    centre = (share + quantile**2 / (2 * n)) / (1 + quantile**2 / n)
    half = quantile * math.sqrt(share * (1 - share) / n + quantile**2 / (4 * n * n)) / (1 + quantile**2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_estimate(
    values: Array | Sequence[float],
    *,
    seed: int,
    resamples: int = 2000,
    clusters: Array | Sequence[Any] | None = None,
    higher_is_better: bool = True,
) -> Estimate:
    """The mean of ``values`` (item,): of 0 and 1 with Wilson's interval (:func:`clustered_wilson`), else bootstrapped.

    Values of a measure from 0 to 1 that all happen to be 0 or 1 (F1 of short answers) have the widest spread that
    their mean allows, so the interval of proportions serves for them too. ``n`` counts the ``clusters``, of which a
    single one counts as one item, right or wrong as all of its items are.
    Raises :class:`~workbench.errors.NumericsError` as :func:`bootstrap` does.
    """
    found = set(np.unique(values).tolist())
    if found <= {0.0, 1.0} and found:
        hits = np.asarray(values).astype(bool).tolist()
        if clusters is None:
            return proportion(hits, higher_is_better=higher_is_better)
        groups = len(set(map(str, clusters)))
        if groups > 1:
            share = clustered_wilson(hits, list(clusters), higher_is_better=higher_is_better)
            return replace(share, n=groups)
        if len(found) == 1:
            return proportion(hits[:1], higher_is_better=higher_is_better)
    return bootstrap(
        values, seed=seed, resamples=resamples, clusters=clusters, higher_is_better=higher_is_better
    )
