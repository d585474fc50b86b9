"""p-values of several tests at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from workbench.errors import NumericsError
from workbench.shapes import Array

__all__ = ["benjamini_hochberg", "holm"]


def holm(p_values: Sequence[float] | Array) -> Array:
    """p-values adjusted so that the chance of any false one is held (Holm 1979); same order, at most 1.

    Raises :class:`~workbench.errors.NumericsError` for values outside 0 to 1.
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
