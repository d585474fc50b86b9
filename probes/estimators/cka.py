"""Centred kernel alignment: how alike two layers are, without any labels (Kornblith et al. 2019)."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from jaxtyping import Float

from probes.features.store import Features
from workbench.choices import member
from workbench.errors import DataError
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.terminal import counted

__all__ = ["CkaEstimator", "cka_between", "linear_cka"]


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
