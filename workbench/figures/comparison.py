"""Differences between runs with their intervals, one row a comparison."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.errors import ConfigError
from workbench.evaluate.compare import Comparison, Comparisons
from workbench.figures._view import View
from workbench.figures.palette import NEGATIVE, POSITIVE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["comparison_plot"]


def comparison_plot(comparisons: Sequence[Comparison], *, title: str = "Paired differences") -> View:
    """Each difference (first minus second) with its 95 % interval; filled where shown after Holm's correction.

    Raises :class:`~workbench.errors.ConfigError` for no comparison.
    """
    if not comparisons:
        raise ConfigError("comparison_plot needs at least one comparison")
    chosen = Comparisons(comparisons)
    return View(
        title=title,
        render=lambda: _page(chosen, title),
        draw=lambda: _draw(chosen, title),
        tabulate=chosen.to_frame,
        height=160 + 40 * len(chosen),
    )


def _page(comparisons: Sequence[Comparison], title: str) -> str:
    from workbench.figures.static import rendered

    drawing = rendered(lambda: _draw(comparisons, title), "svg").decode()
    verdicts = "".join(
        f"<li>{html.escape(f'{c.task} {c.metric}, {c.first} and {c.second}: {c.verdict}')}</li>"
        for c in comparisons
    )
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;margin:1rem;background:#fff;color:#222}svg{max-width:100%}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{style}</style></head><body>{drawing[drawing.index('<svg') :]}<ul>{verdicts}</ul></body></html>"
    )


def _draw(comparisons: Sequence[Comparison], title: str) -> Figure:
    from workbench.figures.static import figure_of

    figure = figure_of(8.0, 1.4 + 0.42 * len(comparisons), title)
    axes = figure.add_subplot()
    for place, c in enumerate(reversed(comparisons)):
        d = c.difference
        colour = POSITIVE if c.better == c.first else NEGATIVE if c.better == c.second else "#777777"
        axes.plot([d.low, d.high], [place, place], color=colour, linewidth=1.6)
        axes.plot([d.value], [place], "o", color=colour, markerfacecolor=colour if c.better else "white")
    labels = [f"{c.task} {c.metric}: {c.first} − {c.second}" for c in reversed(comparisons)]
    axes.set_yticks(range(len(labels)), labels=labels, parse_math=False)
    axes.axvline(0, color="#222222", linewidth=0.8)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.set_xlabel("difference and 95 % interval; filled: shown after Holm's correction")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#d5dbe1", linewidth=0.6)
    return figure
