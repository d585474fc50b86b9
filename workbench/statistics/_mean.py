"""The interval of a mean, by what its values are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics._bootstrap import bootstrap
from workbench.statistics._proportion import wilson

__all__ = ["mean_estimate"]


def mean_estimate(
    values: Array | Sequence[float],
    *,
    seed: int,
    resamples: int = 2000,
    clusters: Array | Sequence[Any] | None = None,
    higher_is_better: bool = True,
) -> Estimate:
    """The mean of ``values`` (item,): of 0 and 1 with Wilson's interval, else, or with clusters, bootstrapped.

    Where clustered items are all right or all wrong no resample differs: Wilson's interval is then that of one item
    a cluster. Raises :class:`~workbench.errors.NumericsError` as :func:`bootstrap` does.
    """
    found = set(np.unique(values).tolist())
    if found <= {0.0, 1.0} and found:
        if clusters is None:
            return wilson(int(np.sum(values)), len(values), higher_is_better=higher_is_better)
        if len(found) == 1:
            count = len(np.unique(np.asarray(clusters)))
            return wilson(count * int(found.pop()), count, higher_is_better=higher_is_better)
    return bootstrap(
        values, seed=seed, resamples=resamples, clusters=clusters, higher_is_better=higher_is_better
    )
