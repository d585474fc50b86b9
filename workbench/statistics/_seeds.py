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

    All seeds answer the same items, so their number does not reduce the items' error: the variances of the
    two sources add up, and the degrees of freedom of the interval's t quantile follow Satterthwaite (1946).
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
        spread = seed_error**4 / (seeds - 1) + item_error**4 / max(items - 1, 1)
        freedom = error**4 / spread if spread > 0 else math.inf
        total = replace(total, method=method, **_t_interval(fmean(values), error, freedom, total.confidence))
    reason = next((f"one seed: {e.undefined}" for e in estimates if e.undefined), None)
    return SeedEstimate(replace(total, undefined=reason), item_error, seed_error, tuple(values))


def student_interval(mean: float, error: float, count: int, method: str) -> Estimate:
    """The mean of ``count`` draws (seeds, refits) without estimates of their own, with Student's t interval.

    ``error`` is the mean's standard error. One draw has no interval.
    """
    if count < 2:
        return Estimate.without_interval(mean, count, "one draw has no spread", method=method)
    return Estimate(n=count, method=method, **_t_interval(mean, error, count - 1))


def _t_interval(mean: float, error: float, freedom: float, confidence: float = 0.95) -> dict[str, Any]:
    reach = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * error
    return {"value": mean, "standard_error": error, "low": mean - reach, "high": mean + reach}
