"""One map of many pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.analysis.patching._pair import PatchPair
from workbench.errors import DataError
from workbench.statistics import Statistic

__all__ = ["mean_effects"]


def mean_effects(
    pairs: Sequence[PatchPair], effects: Sequence[Statistic], positions: Sequence[str] | None = None
) -> Statistic:
    """Effects of many pairs of one shape as one: all of what comes back over all that could.

    Each pair counts by the difference of its two runs (a ratio of sums), so that pairs which the model hardly tells
    apart do not swamp the mean. The standard error is the linearised one of a ratio, over pairs. ``positions`` names
    the places, whose tokens differ between pairs.

    Raises :class:`~workbench.errors.DataError` without pairs, or if their effects differ in shape.
    """
    shapes = {effect.values.shape for effect in effects}
    if len(pairs) != len(effects) or len(shapes) != 1:
        raise DataError(
            f"{len(pairs)} pairs with effects of shapes {sorted(shapes)}; they must be of one shape"
        )
    weights = np.array([pair.clean_value - pair.corrupted_value for pair in pairs])
    values = np.stack([effect.values for effect in effects])  # (pair, ...)
    spread = weights.reshape(-1, *[1] * (values.ndim - 1))
    mean = (spread * values).sum(0) / weights.sum()
    rest = spread * (values - mean)
    count = len(pairs)
    error = np.sqrt((rest**2).sum(0) / max(count - 1, 1) * count) / abs(weights.sum())
    first = effects[0]
    labels = {axis: names for axis, names in first.labels.items() if axis != "position"}
    if positions is not None:
        labels["position"] = tuple(positions)
    return Statistic(
        name=f"{first.name}, {count} pairs",
        unit=first.unit,
        values=mean,
        axes=first.axes,
        labels=labels,
        standard_error=error,
        note=f"mean metric: clean {np.mean([p.clean_value for p in pairs]):.3f}, "
        f"corrupted {np.mean([p.corrupted_value for p in pairs]):.3f}",
    )
