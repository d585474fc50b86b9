"""Estimates with their intervals, one line each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.figures.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["forest_plot"]

_MOST = 60  # lines that can still be read on one page


def _label(name: str, estimate: Estimate) -> str:
    return f"{name}, interval undefined" if estimate.undefined else name


def forest_plot(
    rows: Sequence[tuple[str, str, Estimate]], *, unit: str = "value", title: str = "Results"
) -> Figure:
    """A point and its interval for each (name, group, estimate), from the top down; groups share a colour.

    Only the first 60 lines with a finite value are drawn, and the title says so where there were more.
    Raises :class:`~workbench.errors.DataError` if no value is finite.
    """
    from workbench.figures.static import figure_of

    finite = [row for row in rows if math.isfinite(row[2].value)]
    if not finite:
        raise DataError(f"none of the {len(rows)} values is finite; there is nothing to draw")
    shown = finite[:_MOST]
    heading = title if len(shown) == len(finite) else f"{title} (the first {_MOST} of {len(finite)})"
    figure = figure_of(7.2, 1.1 + 0.24 * len(shown), heading)
    axes = figure.add_subplot()
    colours = {group: OKABE_ITO[k % 8] for k, group in enumerate(dict.fromkeys(g for _, g, _ in shown))}
    for place, (_, group, estimate) in enumerate(shown):
        ends = [e if math.isfinite(e) else estimate.value for e in (estimate.low, estimate.high)]
        axes.plot(ends, [place, place], "-", color=colours[group], linewidth=1.6)
        axes.plot([estimate.value], [place], "o", color=colours[group], markersize=4)
    axes.set_yticks(
        range(len(shown)), labels=[_label(name, estimate) for name, _, estimate in shown], parse_math=False
    )
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel(unit, parse_math=False)
    axes.grid(axis="x", color="#d5dbe1", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
