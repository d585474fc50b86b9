"""Metrics of numbers: columns ``prediction`` and ``gold``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from workbench.evaluate.metrics._metric import OfRows, OfSums
from workbench.shapes import Array

__all__ = ["PEARSON", "SPEARMAN"]


def _moments(examples: pd.DataFrame) -> Array:
    """(item, 6): 1, x, y, xx, yy, xy of the centred columns."""
    x, y = (examples[c].to_numpy(float) for c in ("prediction", "gold"))
    x, y = x - x.mean(), y - y.mean()  # sums of squares of large numbers lose digits
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def _pearson(sums: Array) -> Any:
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.sqrt(np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0))
    shared = n * xy - x * y
    return np.divide(shared, spread, out=np.zeros_like(spread), where=spread > 1e-12)


def _spearman(examples: pd.DataFrame) -> float:
    x, y = (stats.rankdata(examples[c].to_numpy(float)) for c in ("prediction", "gold"))
    return float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0


PEARSON = OfSums("pearson", _moments, _pearson, "Pearson correlation of predicted and gold scores")
SPEARMAN = OfRows("spearman", _spearman, "Spearman rank correlation of predicted and gold scores")
