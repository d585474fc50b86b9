"""Intervals of proportions."""

from __future__ import annotations

import math

from scipy import stats

from workbench.errors import NumericsError
from workbench.estimate import Estimate

__all__ = ["wilson"]


def wilson(successes: int, n: int, confidence: float = 0.95, *, higher_is_better: bool = True) -> Estimate:
    """The proportion ``successes / n`` with the score interval of Wilson (1927).

    Unlike a bootstrap it keeps a width when all or none succeed. The standard error is the plug-in
    ``sqrt(p (1 - p) / n)``. Raises :class:`~workbench.errors.NumericsError` unless 0 <= successes <= n > 0.
    """
    if n < 1 or not 0 <= successes <= n:
        raise NumericsError(f"a proportion needs 0 <= successes <= n and n > 0, got {successes} of {n}")
    share = successes / n
    bounds = stats.binomtest(int(successes), int(n)).proportion_ci(confidence, method="wilson")
    return Estimate(
        value=share,
        standard_error=math.sqrt(share * (1 - share) / n),
        low=float(bounds.low) if successes else 0.0,  # which rounding may miss by a hair
        high=float(bounds.high) if successes < n else 1.0,
        n=int(n),
        confidence=confidence,
        method="wilson",
        higher_is_better=higher_is_better,
    )
