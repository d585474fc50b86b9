"""Paired tests of two systems on the same items, and corrections for several tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from workbench.errors import NumericsError
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics._bootstrap import bootstrap
from workbench.statistics._measures import Measure, mean_measure

__all__ = [
    "McNemar",
    "benjamini_hochberg",
    "holm",
    "mcnemar",
    "minimum_detectable_difference",
    "paired_difference",
    "paired_permutation",
]

# Below this many items that one system alone gets right the exact test is used.
_EXACT_BELOW = 25
_BATCH_VALUES = 4 * 2**20


@dataclass(frozen=True)
class McNemar:
    """McNemar's test: counts of items that both, one or neither system gets right, and the two-sided p-value."""

    both: int
    first_only: int
    second_only: int
    neither: int
    p_value: float
    exact: bool

    @property
    def name(self) -> str:
        """The test as a report names it."""
        return "McNemar, exact" if self.exact else "McNemar"

    @property
    def effect_size(self) -> float:
        """Cohen's g: how far the first system's share of the items that one alone gets right is from a half."""
        discordant = self.first_only + self.second_only
        return self.first_only / discordant - 0.5 if discordant else 0.0


def mcnemar(first: Array | Sequence[bool], second: Array | Sequence[bool]) -> McNemar:
    """Test whether two systems are right equally often, given right (1) or wrong (0) of each on the same items.

    Only items that one system alone gets right count (McNemar 1947). Fewer than 25 of them: the exact
    binomial test; else the chi-square statistic without continuity correction, which holds its level
    (Fagerland, Lydersen & Laake 2013). Raises :class:`~workbench.errors.NumericsError` for lengths that
    differ, an empty list or values other than 0 and 1.

    Example:
        ```python
        import workbench

        print(workbench.statistics.mcnemar([1, 1, 0, 1], [1, 0, 0, 0]).p_value)
        ```
    """
    a, b = _pair(first, second)
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise NumericsError("McNemar's test needs right (1) or wrong (0) for each item")
    first_only, second_only = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    discordant = first_only + second_only
    exact = discordant < _EXACT_BELOW
    if not discordant:
        p_value = 1.0
    elif exact:
        p_value = float(stats.binomtest(first_only, discordant).pvalue)
    else:
        p_value = float(stats.chi2.sf((first_only - second_only) ** 2 / discordant, 1))
    both, neither = int(((a == 1) & (b == 1)).sum()), int(((a == 0) & (b == 0)).sum())
    return McNemar(both, first_only, second_only, neither, p_value, exact)


def paired_difference(
    first: Array | Sequence[float],
    second: Array | Sequence[float],
    measure: Measure = mean_measure,
    *,
    seed: int,
    resamples: int = 2000,
    confidence: float = 0.95,
    clusters: Array | Sequence[Any] | None = None,
) -> Estimate:
    """``measure(first) - measure(second)`` with a bootstrap interval over the items they share.

    ``first`` and ``second`` have shape (item,) or (item, column); an item is drawn for both systems at
    once, and items of equal ``clusters`` label together. Raises
    :class:`~workbench.errors.NumericsError` for unequal lengths or values that are not finite.
    """
    a, b = _pair(first, second)
    options: dict[str, Any] = {"seed": seed, "resamples": resamples, "confidence": confidence}
    if measure is mean_measure:
        return bootstrap(a[:, 0] - b[:, 0], clusters=clusters, **options)

    def of_rows(rows: Array, axis: int = -1) -> Any:
        drawn = rows.astype(int)
        return measure(a[drawn]) - measure(b[drawn])

    return bootstrap(np.arange(len(a)), of_rows, clusters=clusters, **options)


def paired_permutation(
    first: Array | Sequence[float],
    second: Array | Sequence[float],
    measure: Measure = mean_measure,
    *,
    seed: int,
    permutations: int = 5000,
    clusters: Array | Sequence[Any] | None = None,
) -> float:
    """Two-sided p-value of ``measure(first) == measure(second)`` by exchanging the systems item by item.

    Under the hypothesis each item could as well have been answered the other way round (Noreen 1989); items of equal
    ``clusters`` label are exchanged together. The observed arrangement counts, so p is never 0: ``(1 + as large) / (1 +
    permutations)`` (Phipson & Smyth 2010). NaN where the measure has no value for one of the systems.
    """
    a, b = _pair(first, second)
    codes = _codes(clusters, len(a))
    observed = abs(float(measure(a) - measure(b)))
    if np.isnan(observed):
        return observed
    rng = np.random.default_rng(seed)
    batch = max(1, _BATCH_VALUES // a.size)
    extreme = 0
    for start in range(0, permutations, batch):
        count = min(batch, permutations - start)
        swap = (rng.random((count, int(codes.max()) + 1)) < 0.5)[:, codes]
        # an arrangement in which the measure has no value counts against a difference
        extreme += int((~(_exchanged(a, b, measure, swap) < observed - 1e-12)).sum())
    return (1 + extreme) / (1 + permutations)


def _exchanged(a: Array, b: Array, measure: Measure, swap: Array) -> Array:
    """Absolute differences after exchanging the items that each row of ``swap`` marks."""
    if measure is mean_measure:
        signed = np.where(swap, -1.0, 1.0) @ (a[:, 0] - b[:, 0])
        return np.abs(signed) / len(a)
    chosen = swap[..., None]
    return np.abs(measure(np.where(chosen, b, a)) - measure(np.where(chosen, a, b)))


def minimum_detectable_difference(standard_error: float, *, level: float = 0.05, power: float = 0.8) -> float:
    """The smallest true difference that a two-sided test at ``level`` would find with probability ``power``.

    ``standard_error`` is that of the difference; the test statistic is taken as normal (Cohen 1988): ``(z(1 - level/2)
    + z(power)) * standard_error``.
    """
    return float(stats.norm.ppf(1 - level / 2) + stats.norm.ppf(power)) * standard_error


def _codes(clusters: Array | Sequence[Any] | None, n: int) -> Array:
    if clusters is None:
        return np.arange(n)
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise NumericsError(f"clusters must label each of the {n} items, got shape {labels.shape}")
    return np.unique(labels, return_inverse=True)[1]


def _pair(first: Any, second: Any) -> tuple[Array, Array]:
    """Both as (item, column) of float64."""
    arrays = [np.asarray(values, dtype=np.float64) for values in (first, second)]
    a, b = (array[:, None] if array.ndim == 1 else array for array in arrays)
    if a.shape != b.shape or a.ndim != 2 or not len(a):
        raise NumericsError(
            f"a paired test needs the same items of both systems, got {arrays[0].shape} and {arrays[1].shape}"
        )
    for name, array in (("first", a), ("second", b)):
        bad = np.flatnonzero(~np.isfinite(array).all(1))
        if len(bad):
            raise NumericsError(
                f"the {name} system has {len(bad)} scores that are not finite, from item {bad[0]}"
            )
    return a, b


def holm(p_values: Sequence[float] | Array) -> Array:
    """p-values adjusted so that the chance of any false one is held (Holm 1979); same order, at most 1.

    Raises :class:`~workbench.errors.NumericsError` for values outside 0 to 1.

    Example:
        ```python
        import workbench

        print(workbench.statistics.holm([0.01, 0.04, 0.03]))
        ```
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted


def benjamini_hochberg(p_values: Sequence[float] | Array) -> Array:
    """p-values adjusted so that the share of false ones among those found is held (Benjamini & Hochberg 1995).

    Raises :class:`~workbench.errors.NumericsError` for values outside 0 to 1.
    """
    p = _checked(p_values)
    return np.asarray(stats.false_discovery_control(p)) if len(p) else p


def _checked(p_values: Sequence[float] | Array) -> Array:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not bool(((p >= 0) & (p <= 1)).all()):
        raise NumericsError(f"p-values must be a list of numbers from 0 to 1, got {p_values!r:.80}")
    return p
