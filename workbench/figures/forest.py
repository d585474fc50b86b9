"""Estimates with their intervals, one line each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.figures._page import page
from workbench.figures._view import View
from workbench.figures.palette import OKABE_ITO
from workbench.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["forest_plot", "results_plot"]

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


def results_plot(run: Run, *, title: str | None = None, display_mode: str = "auto") -> View:
    """The values of a run with their intervals, as :func:`forest_plot` draws them; tasks share a colour.

    Raises :class:`~workbench.errors.DataError` if no value is finite, as in an unfinished run.
    """
    from workbench.figures.static import rendered

    rows = [
        (f"{task} {metric}", task, estimate)
        for task, metrics in run.results.items()
        for metric, estimate in metrics.items()
    ]
    name = title or run.record.id

    def draw() -> Figure:
        return forest_plot(rows, title=name)

    def render() -> str:
        drawing = rendered(draw, "svg").decode()
        body = Markup("<article>{}</article>").format(Markup(drawing[drawing.index("<svg") :]))
        return page(title=name, body=body, display_mode=display_mode)

    return View(title=name, render=render, draw=draw, tabulate=run.to_frame, height=180 + 24 * len(rows))
