"""Centred kernel alignment: how alike two layers are, without any labels (Kornblith et al. 2019)."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import numpy as np
from jaxtyping import Float, Int

from probes.features.store import Features
from workbench.choices import member
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import Statistic, bootstrap
from workbench.terminal import counted

__all__ = ["CkaEstimator", "cka_between", "cka_estimate", "linear_cka"]


class CkaEstimator(StrEnum):
    """How the Hilbert-Schmidt independence criterion (HSIC) of two layers is estimated."""

    DEBIASED = "debiased"  # 0 on average for independent features, however many there are
    BIASED = "biased"  # near 1 for any features that are many beside the rows


def linear_cka(
    first: Float[Array, "row a"],
    second: Float[Array, "row b"],
    estimator: CkaEstimator | str = CkaEstimator.DEBIASED,
) -> float:
    """HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)) of the kernels K = XX', L = YY' of the same rows; 1 for equal geometry.

    ``debiased`` takes the unbiased HSIC of Nguyen et al. 2021, "Do Wide and Deep Networks Learn the Same Things?",
    equation 3 (Song et al. 2012), over all rows at once where they average over minibatches; it may be
    below 0. ``biased`` is |Y'X|^2 / (|X'X| |Y'Y|) of centred features (Kornblith et al. 2019, table 1): 0.9 for 60 rows
    of 576 independent features. Neither changes under rotation or one factor for all features. NaN where features do
    not vary.

    Raises :class:`~workbench.errors.DataError` for different rows, fewer than four, or an unknown estimator.
    """
    chosen = member(CkaEstimator, estimator, "estimator", DataError)
    if len(first) != len(second):
        raise DataError(f"CKA compares features of the same rows, got {len(first)} and {len(second)}")
    if chosen is CkaEstimator.DEBIASED and len(first) < 4:
        raise DataError(
            f"{counted(len(first), 'row')}: the debiased CKA needs at least 4; use estimator='biased'"
        )
    x, y = (np.asarray(f, dtype=np.float64) - np.mean(f, axis=0, dtype=np.float64) for f in (first, second))
    hsic = _unbiased_hsic if chosen is CkaEstimator.DEBIASED else _biased_hsic
    norms = hsic(x, x) * hsic(y, y)
    return float(hsic(x, y) / np.sqrt(norms)) if norms > 0 else float("nan")


def _biased_hsic(x: Float[Array, "row a"], y: Float[Array, "row b"]) -> float:
    """tr(KL) of centred features, up to a factor that CKA cancels."""
    return float(np.square(np.linalg.norm(y.T @ x)))


def _unbiased_hsic(x: Float[Array, "row a"], y: Float[Array, "row b"]) -> float:
    """Nguyen et al. 2021, equation 3, times n (n - 3), which CKA cancels; without a matrix of rows by rows.

    tr(KL) + 1'K1 1'L1 / ((n - 1)(n - 2)) - 2 1'KL1 / (n - 2), with the diagonals of K and L set to zero.
    """
    n = len(x)
    own = [np.square(z).sum(1) for z in (x, y)]  # the diagonals
    sums = [z @ z.sum(0) - d for z, d in zip((x, y), own, strict=True)]  # K1 and L1
    trace = np.square(np.linalg.norm(y.T @ x)) - own[0] @ own[1]
    return float(
        trace + sums[0].sum() * sums[1].sum() / ((n - 1) * (n - 2)) - 2 * sums[0] @ sums[1] / (n - 2)
    )


def cka_estimate(
    first: Float[Array, "row a"],
    second: Float[Array, "row b"],
    clusters: Int[Array, " row"],
    *,
    seed: int = 0,
    pairings: int = 10,
) -> tuple[Estimate, float]:
    """:func:`linear_cka`, debiased, with an interval over clusters of rows, and its floor.

    ``clusters`` labels rows that are not independent (the words of a text). A bootstrap of rows would draw some of them
    twice, and two copies of a row are alike whatever the features are. So each cluster is left out once, and the
    interval is the bootstrap of the jackknife's pseudo-values T c - (T - 1) c_(-t) over the T clusters (Tukey
    1958; Efron & Tibshirani 1993, section 11.5). The floor is the mean over ``pairings`` random orders of the second's
    rows.

    Raises :class:`~workbench.errors.DataError` as :func:`linear_cka` does.

    Example:
        ```python
        import numpy as np
        from probes.estimators import cka_estimate

        x = np.random.default_rng(0).normal(size=(40, 5))
        print(cka_estimate(x, 2 * x, np.repeat(np.arange(10), 4)))
        ```
    """
    value = linear_cka(first, second)
    k, other = _kernel(first), _kernel(second)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(first)) for _ in range(pairings)]
    floor = float(np.mean([_cka_of(k, other[np.ix_(order, order)]) for order in orders]))
    members = np.equal.outer(clusters, np.unique(clusters)).astype(np.float64)  # (row, cluster)
    count = members.shape[1]
    if count < 2 or len(first) - members.sum(0).max() < 4:
        why = "one text has no spread" if count < 2 else "too few rows without the longest text"
        return Estimate.without_interval(value, count, why, method="jackknife", higher_is_better=None), floor
    without = _left_out(k, other, members)
    found = bootstrap(count * value - (count - 1) * without, seed=seed, undefined="a layer does not vary")
    return replace(
        found, value=value, method="bootstrap of jackknife pseudo-values", higher_is_better=None
    ), floor


def _kernel(features: Float[Array, "row a"]) -> Float[Array, "row row"]:
    """Inner products of centred rows, 0 between a row and itself."""
    x = np.asarray(features, dtype=np.float64) - np.mean(features, axis=0, dtype=np.float64)
    products: Array = x @ x.T
    np.fill_diagonal(products, 0)
    return products


def _cka_of(k: Float[Array, "row row"], other: Float[Array, "row row"]) -> float:
    """The debiased CKA of two kernels."""
    nobody = np.zeros((len(k), 1))
    return float(_left_out(k, other, nobody)[0])


def _left_out(
    k: Float[Array, "row row"], other: Float[Array, "row row"], members: Float[Array, "row cluster"]
) -> Float[Array, " cluster"]:
    """The debiased CKA without each cluster in turn, from sums over the kernels: no kernel is built again."""
    both = _hsic_without(k, other, members)
    norms = _hsic_without(k, k, members) * _hsic_without(other, other, members)
    return both / np.sqrt(np.where(norms > 0, norms, np.nan))


def _hsic_without(
    k: Float[Array, "row row"], other: Float[Array, "row row"], members: Float[Array, "row cluster"]
) -> Float[Array, " cluster"]:
    """:func:`_unbiased_hsic` of the rows outside each cluster."""
    n, kept, products = len(k) - members.sum(0), 1 - members, k * other
    within = ((products @ members) * members).sum(0)
    trace = products.sum() - 2 * products.sum(1) @ members + within
    sums = [(z.sum(1)[:, None] - z @ members) * kept for z in (k, other)]  # (row, cluster)
    totals = [part.sum(0) for part in sums]
    cross = (sums[0] * sums[1]).sum(0)
    found: Array = trace + totals[0] * totals[1] / ((n - 1) * (n - 2)) - 2 * cross / (n - 2)
    return found


def cka_between(
    first: Features,
    second: Features,
    limit: int = 4000,
    estimator: CkaEstimator | str = CkaEstimator.DEBIASED,
) -> Statistic:
    """CKA of each layer of one store with each of another, on the same places (at most ``limit``, spread evenly).

    ``estimator`` and errors: see :func:`linear_cka`.
    """
    chosen = member(CkaEstimator, estimator, "estimator", DataError)
    if len(first.valid) != len(second.valid):
        raise DataError(
            f"the stores hold {len(first.valid)} and {len(second.valid)} places; use the same sentences"
        )
    rows = np.flatnonzero(first.valid & second.valid)
    rows = rows[:: max(1, len(rows) // limit)][:limit]
    values = np.array(
        [
            [linear_cka(first.layer(a)[rows], second.layer(b)[rows], chosen) for b in second.layers]
            for a in first.layers
        ]
    )
    names = (f"{first.model} layer", f"{second.model} layer")
    axes = names if names[0] != names[1] else ("layer", "other layer")
    return Statistic(
        name=f"linear CKA ({chosen})",
        unit="1 for equal geometry",
        values=values,
        axes=axes,
        labels={axes[0]: first.layers, axes[1]: second.layers},
        note=f"of {counted(len(rows), 'place')}",
    )
