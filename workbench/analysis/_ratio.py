"""Means over the tokens of many texts, with errors that know that the tokens of one text belong together."""

from __future__ import annotations

import numpy as np

from workbench.shapes import Array

__all__ = ["RatioSums"]


class RatioSums:
    """Ratios of sums over texts, kept in memory that does not grow with the number of texts.

    Each text adds a total ``x`` (an array of any fixed shape) over ``n`` tokens (broadcast to it). The
    estimate is sum(x) / sum(n); its variance that of a ratio estimator over clusters (Cochran 1977,
    chapter 6, one cluster a text): T / (T - 1) * sum((x - ratio * n)^2) / sum(n)^2 for T texts.
    """

    def __init__(self) -> None:
        self.clusters = 0
        self._sums: Array | None = None  # (5, ...): x, n, x^2, x n, n^2

    def add(self, totals: Array, counts: Array) -> None:
        """Add texts: ``totals`` (text, ...) over ``counts`` tokens, broadcastable to the same shape."""
        x = np.asarray(totals, dtype=np.float64)
        n = np.broadcast_to(np.asarray(counts, dtype=np.float64), x.shape)
        new = np.stack([part.sum(0) for part in (x, n, x * x, x * n, n * n)])
        self._sums = new if self._sums is None else self._sums + new
        self.clusters += len(x)

    @property
    def values(self) -> Array:
        """sum(x) / sum(n); NaN where no token was counted."""
        x, n = self._parts()[:2]
        with np.errstate(invalid="ignore"):
            return np.divide(x, n)

    @property
    def counts(self) -> Array:
        """sum(n)."""
        return self._parts()[1]

    @property
    def standard_errors(self) -> Array:
        """Standard errors, clustered by text; NaN with fewer than two texts."""
        _, n, xx, xn, nn = self._parts()
        ratio = self.values
        if self.clusters < 2:
            return np.full_like(ratio, np.nan)
        residual = np.maximum(xx - 2 * ratio * xn + ratio**2 * nn, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(self.clusters / (self.clusters - 1) * residual) / n

    def _parts(self) -> Array:
        assert self._sums is not None, "nothing was added"
        return self._sums
