"""Any statistic drawn as its axes say: a grid of heads, a heat map, or a curve."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from workbench.errors import ConfigError
from workbench.figures._view import View
from workbench.figures.matrix import head_statistics_grid, heat_map
from workbench.figures.patching import patching_grid
from workbench.figures.plots import Curve, curve_plot
from workbench.shapes import Array
from workbench.statistics import Statistic

__all__ = ["statistic_view"]

_RESTORED = "share of the clean answer restored"  # the unit of what interventions bring back


def statistic_view(statistic: Statistic, *, title: str | None = None, display_mode: str = "auto") -> View:
    """Layers by heads as a grid, other pairs of axes as a heat map, one axis as a curve or a row.

    Layers and heads over training steps are a heat map of one row a head. What interventions bring back is drawn by
    :func:`~workbench.figures.patching_grid`. Raises :class:`~workbench.errors.ConfigError` for another statistic of
    three axes or more.
    """
    options: dict[str, Any] = {"title": title, "display_mode": display_mode}
    if statistic.unit == _RESTORED and statistic.axes[:1] == ("layer",) and len(statistic.axes) == 2:
        return patching_grid(statistic, **options)
    if set(statistic.axes) == {"layer", "head"}:
        return head_statistics_grid(statistic, **options)
    options["title"] = title or statistic.name[:1].upper() + statistic.name[1:]
    if len(statistic.axes) == 1:
        return _line(statistic, options)
    if statistic.axes == ("step", "layer", "head"):
        statistic = _heads_as_rows(statistic)
    if len(statistic.axes) != 2:
        raise ConfigError(f"{statistic.name} has axes {statistic.axes}; select or average to two at most")
    down, across = statistic.axes
    return heat_map(
        statistic.values,
        rows=statistic.labels.get(down),
        columns=statistic.labels.get(across),
        axes=(down, across),
        unit=statistic.unit,
        standard_error=statistic.standard_error,
        note=statistic.note,
        **options,
    )


def _heads_as_rows(statistic: Statistic) -> Statistic:
    """(step, layer, head) as (head, step), the head named by its layer and number."""
    pairs = [range(n) for n in statistic.values.shape[1:]]
    labels = [statistic.labels.get(axis, pair) for axis, pair in zip(("layer", "head"), pairs, strict=True)]

    def turned(values: Array | None) -> Array | None:
        return None if values is None else values.reshape(len(values), -1).T

    values = turned(statistic.values)
    assert values is not None
    return replace(
        statistic,
        values=values,
        axes=("layer-head", "step"),
        labels={
            "layer-head": tuple(f"{layer}-{head}" for layer, head in product(*labels)),
            "step": statistic.labels.get("step", tuple(range(values.shape[1]))),
        },
        standard_error=turned(statistic.standard_error),
        low=turned(statistic.low),
        high=turned(statistic.high),
    )


def _line(statistic: Statistic, options: dict[str, Any]) -> View:
    """A curve over numbers, with the interval as its band; a row of cells over names."""
    (axis,) = statistic.axes
    labels = statistic.labels.get(axis, tuple(range(len(statistic.values))))
    if not all(isinstance(label, int) for label in labels):
        return heat_map(
            statistic.values[None],
            rows=[statistic.unit or "value"],
            columns=labels,
            axes=("", axis),
            unit=statistic.unit,
            note=statistic.note,
            **options,
        )
    curve = Curve(
        name=statistic.name,
        x=[int(label) for label in labels],
        y=statistic.values,
        low=statistic.low,
        high=statistic.high,
    )
    return curve_plot([curve], x=axis, y=statistic.unit, note=statistic.note, **options)
