"""Centred kernel alignment: how alike two layers are, without any labels (Kornblith et al. 2019)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from probes.features.store import Features
from workbench.errors import DataError
from workbench.shapes import Array
from workbench.statistics import Statistic

__all__ = ["cka_between", "linear_cka"]


def linear_cka(first: Float[Array, "row a"], second: Float[Array, "row b"]) -> float:
    """|Y'X|^2 / (|X'X| |Y'Y|) of centred features of the same rows (their equation 10); 1 for equal geometry.

    It does not change under rotation or one factor for all features.
    """
    if len(first) != len(second):
        raise DataError(f"CKA compares features of the same rows, got {len(first)} and {len(second)}")
    x, y = (np.asarray(f, dtype=np.float64) - np.mean(f, axis=0, dtype=np.float64) for f in (first, second))
    norms = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.square(np.linalg.norm(y.T @ x)) / norms) if norms > 0 else float("nan")


def cka_between(first: Features, second: Features, limit: int = 4000) -> Statistic:
    """CKA of each layer of one store with each of another, on the same places (at most ``limit``, spread evenly)."""
    if len(first.valid) != len(second.valid):
        raise DataError(
            f"the stores hold {len(first.valid)} and {len(second.valid)} places; use the same sentences"
        )
    rows = np.flatnonzero(first.valid & second.valid)
    rows = rows[:: max(1, len(rows) // limit)][:limit]
    values = np.array(
        [
            [linear_cka(first.layer(a)[rows], second.layer(b)[rows]) for b in second.layers]
            for a in first.layers
        ]
    )
    names = (f"{first.model} layer", f"{second.model} layer")
    axes = names if names[0] != names[1] else ("layer", "other layer")
    return Statistic(
        name="linear CKA",
        unit="0 to 1",
        values=values,
        axes=axes,
        labels={axes[0]: first.layers, axes[1]: second.layers},
        note=f"of {len(rows)} places",
    )
