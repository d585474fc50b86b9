"""One metric over several training seeds: what the items leave open, and what the seeds do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from scipy import stats

from workbench.errors import NumericsError
from workbench.estimate import Estimate

__all__ = ["SeedEstimate", "over_seeds", "student_interval"]


@dataclass(frozen=True)
class SeedEstimate:
    """The mean over seeds; ``total`` has both sources of error in its interval.

    ``item_error`` is the standard error that another sample of items would bring, ``seed_error`` the one of
    other seeds (standard deviation over seeds divided by the root of their number).
    """

    total: Estimate
    item_error: float
    seed_error: float
    values: tuple[float, ...]

    def __str__(self) -> str:
        if self.total.undefined:
            return f"{self.total} over {len(self.values)} seeds"
        sources = f"items ±{self.item_error:.4f}, seeds ±{self.seed_error:.4f}"
        return f"{self.total} over {len(self.values)} seeds ({sources})"


def over_seeds(estimates: Sequence[Estimate]) -> SeedEstimate:
    """Join the estimates of one metric on the same items under different seeds.

    All seeds answer the same items, so items and seeds are crossed and their variances add up. Each half-width is
    taken with its own quantile of t, that of the seeds with one degree of freedom less than seeds, and both are
    joined as limits of a sum are (Zou & Donner 2008): few seeds are not made to look like many by many items.
    Where all seeds agree and the items' error is 0 (every item right), the items' own interval is the mean's.
    What one seed leaves undefined is undefined in the mean.
    Raises :class:`~workbench.errors.NumericsError` for fewer than two seeds or different numbers of items.
    """
    sizes = {estimate.n for estimate in estimates}
    if len(estimates) < 2 or len(sizes) != 1:
        raise NumericsError(
            f"joining seeds needs two or more estimates on the same items, got {len(estimates)} on {sorted(sizes)}"
        )
    values = [estimate.value for estimate in estimates]
    seeds, items = len(values), estimates[0].n
    with np.errstate(invalid="ignore"):  # infinite perplexities have no spread
        seed_error = float(np.std(values, ddof=1)) / math.sqrt(seeds)
    item_error = math.sqrt(fmean(estimate.standard_error**2 for estimate in estimates))
    error = math.hypot(seed_error, item_error)
    method = f"t interval over {seeds} seeds and {items} items"
    total = replace(estimates[0], method=f"{estimates[0].method}; {seeds} seeds alike")
    if error != 0:
        quantile = 0.5 + total.confidence / 2
        reach = math.hypot(
            float(stats.t.ppf(quantile, seeds - 1)) * seed_error,
            float(stats.t.ppf(quantile, max(items - 1, 1))) * item_error,
        )
        total = replace(total, method=method, **_around(fmean(values), error, reach))
    reason = next((f"one seed: {e.undefined}" for e in estimates if e.undefined), None)
    return SeedEstimate(replace(total, undefined=reason), item_error, seed_error, tuple(values))


def student_interval(mean: float, error: float, count: int, method: str) -> Estimate:
    """The mean of ``count`` draws (seeds, refits) without estimates of their own, with Student's t interval.

    ``error`` is the mean's standard error. One draw has no interval.
    """
    if count < 2:
        return Estimate.without_interval(mean, count, "one draw has no spread", method=method)
    reach = float(stats.t.ppf(0.975, count - 1)) * error
    return Estimate(n=count, method=method, **_around(mean, error, reach))


def _around(mean: float, error: float, reach: float) -> dict[str, Any]:
    return {"value": mean, "standard_error": error, "low": mean - reach, "high": mean + reach}
