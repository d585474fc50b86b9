"""How much each head matters for a metric: the metric's change when the head is silenced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.models import LoadedModel
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import Stack, ablate_heads, structure_of

__all__ = ["HeadMetric", "head_importance"]

# What a metric may return: one score an item (best: differences are then paired), an estimate, or a number.
Score: TypeAlias = Array | Sequence[float] | Estimate | float
HeadMetric: TypeAlias = Callable[[LoadedModel], Score]


def head_importance(
    model: LoadedModel,
    metric: HeadMetric,
    *,
    layers: Sequence[int] | None = None,
    stack: Stack | None = None,
    means: Array | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Statistic:
    """Metric of the whole model minus the metric without the head, for each (layer, head).

    Ablation one head at a time (Michel et al. 2019, section 3.2): the head's output is zero, or its mean
    with ``means`` from :func:`workbench.trace.mean_head_outputs`. ``metric`` runs the model on any task and
    returns a score for each item, whose paired differences give the standard error, or a single number,
    which gives none. Runs the metric layers × heads + 1 times; ``progress`` is told (done, of).
    """
    structure = structure_of(model.model)
    where = structure.stack(stack)
    rows = tuple(range(structure.layers[where]) if layers is None else layers)
    structure.check(where, rows)
    heads = structure.heads[where]
    whole = _items(metric(model))
    values, errors = np.zeros((len(rows), heads)), np.full((len(rows), heads), np.nan)
    for i, layer in enumerate(rows):
        for head in range(heads):
            with ablate_heads(model, [(layer, head)], means, where):
                without = _items(metric(model))
            values[i, head], errors[i, head] = _difference(whole, without)
            if progress is not None:
                progress(i * heads + head + 1, len(rows) * heads)
    return Statistic(
        name="head importance",
        unit="metric",
        values=values,
        axes=("layer", "head"),
        labels={"layer": rows, "head": tuple(range(heads))},
        standard_error=None if np.isnan(errors).all() else errors,
        note=f"{'zero' if means is None else 'mean'} ablation; whole model {whole.mean():.4g}, {len(whole)} items",
    )


def _items(score: Score) -> Array:
    values = np.atleast_1d(
        np.asarray(score.value if isinstance(score, Estimate) else score, dtype=np.float64)
    )
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise DataError("the metric must return finite numbers, one for each item, or one number")
    return values


def _difference(whole: Array, without: Array) -> tuple[float, float]:
    """Mean paired difference and its standard error, NaN for a single number."""
    if len(whole) != len(without):
        raise DataError(
            f"the metric gave {len(whole)} items, then {len(without)}: it must give the same each time"
        )
    paired = whole - without
    error = paired.std(ddof=1) / np.sqrt(len(paired)) if len(paired) > 1 else np.nan
    return float(paired.mean()), float(error)
