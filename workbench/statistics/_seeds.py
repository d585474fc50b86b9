"""One metric over several training seeds: what the items leave open, and what the seeds do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy import stats

from workbench.errors import NumericsError
from workbench.estimate import Estimate

__all__ = ["SeedEstimate", "over_seeds"]


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
        sources = f"items ±{self.item_error:.4f}, seeds ±{self.seed_error:.4f}"
        return f"{self.total} over {len(self.values)} seeds ({sources})"


def over_seeds(estimates: Sequence[Estimate]) -> SeedEstimate:
    """Join the estimates of one metric on the same items under different seeds.

    All seeds answer the same items, so their number does not reduce the items' error: the variances of the
    two sources add up, and the degrees of freedom of the interval's t quantile follow Satterthwaite (1946).
    Raises :class:`~workbench.errors.NumericsError` for fewer than two seeds or different numbers of items.
    """
    sizes = {estimate.n for estimate in estimates}
    if len(estimates) < 2 or len(sizes) != 1:
        raise NumericsError(
            f"joining seeds needs two or more estimates on the same items, got {len(estimates)} on {sorted(sizes)}"
        )
    values = [estimate.value for estimate in estimates]
    seeds, items = len(values), estimates[0].n
    seed_error = stdev(values) / math.sqrt(seeds)
    item_error = math.sqrt(fmean(estimate.standard_error**2 for estimate in estimates))
    error = math.hypot(seed_error, item_error)
    spread = seed_error**4 / (seeds - 1) + item_error**4 / max(items - 1, 1)
    freedom = error**4 / spread if spread > 0 else math.inf
    confidence = estimates[0].confidence
    reach = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * error
    mean = fmean(values)
    total = Estimate(
        value=mean,
        standard_error=error,
        low=mean - reach,
        high=mean + reach,
        n=items,
        confidence=confidence,
        method=f"t interval over {seeds} seeds and {items} items",
        higher_is_better=estimates[0].higher_is_better,
    )
    return SeedEstimate(total, item_error, seed_error, tuple(values))
