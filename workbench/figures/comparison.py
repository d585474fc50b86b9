"""Differences between runs with their intervals, one row a comparison."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from workbench.errors import ConfigError, DataError
from workbench.estimate import Estimate
from workbench.evaluate.calibration import Calibration
from workbench.evaluate.compare import Comparison, Comparisons
from workbench.evaluate.preferences import PreferenceComparison
from workbench.figures._page import page
from workbench.figures._view import View
from workbench.figures.palette import NEGATIVE, OKABE_ITO, POSITIVE
from workbench.figures.plots import Curve, curve_plot
from workbench.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["comparison_plot", "forest_plot", "preference_plot", "reliability_diagram", "results_plot"]


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


_MOST = 60  # lines that can still be read on one page


def _label(name: str, estimate: Estimate) -> str:
    return f"{name}, interval undefined" if math.isnan(estimate.low) else name


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
    _forest(figure.add_subplot(), shown, unit)
    return figure


def _forest(axes: Any, rows: Sequence[tuple[str, str, Estimate]], unit: str) -> None:
    colours = {group: OKABE_ITO[k % 8] for k, group in enumerate(dict.fromkeys(g for _, g, _ in rows))}
    for place, (_, group, estimate) in enumerate(rows):
        ends = [e if math.isfinite(e) else estimate.value for e in (estimate.low, estimate.high)]
        axes.plot(ends, [place, place], "-", color=colours[group], linewidth=1.6)
        axes.plot([estimate.value], [place], "o", color=colours[group], markersize=4)
    axes.set_yticks(
        range(len(rows)), labels=[_label(name, estimate) for name, _, estimate in rows], parse_math=False
    )
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(unit, parse_math=False)
    axes.grid(axis="x", color="#d5dbe1", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def preference_plot(
    found: PreferenceComparison, *, title: str = "Models compared by preference", display_mode: str = "auto"
) -> View:
    """Win rates of every pair, plain and at equal lengths, with 95 % intervals; of three models or more also Elo.

    Raises :class:`~workbench.errors.DataError` if no value is finite.
    """
    from workbench.figures.static import rendered

    rates, elo = _preference_rows(found)
    if not rates:
        raise DataError("no win rate is finite; there is nothing to draw")

    def render() -> str:
        drawing = rendered(lambda: _draw_preferences(rates, elo, title), "svg").decode()
        body = Markup("<article>{}<ul>{}</ul></article>").format(
            Markup(drawing[drawing.index("<svg") :]),
            Markup("").join(Markup("<li>{}</li>").format(line) for line in found.verdicts),
        )
        return page(title=title, body=body, display_mode=display_mode)

    height = 260 + 24 * (len(rates) + len(elo)) + 40 * len(found.pairs)
    return View(
        title=title,
        render=render,
        draw=lambda: _draw_preferences(rates, elo, title),
        tabulate=found.to_frame,
        height=height,
    )


def _preference_rows(found: PreferenceComparison) -> tuple[list[tuple[str, str, Estimate]], ...]:
    """Lines of win rates, and of Elo, the strongest model first."""
    rates = []
    for pair in found.pairs:
        name = f"{pair.first} against {pair.second}"
        rates.append((name, "all replies", pair.rate))
        if pair.controlled is not None:
            rates.append((f"{name}, at equal lengths", "equal lengths", pair.controlled))
    elo = sorted(found.strengths.elo().items(), key=lambda item: -item[1].value)
    several = len(found.strengths.names) > 2
    return (
        [row for row in rates if math.isfinite(row[2].value)][:_MOST],
        [(name, "Elo", e) for name, e in elo if several and math.isfinite(e.value)][:_MOST],
    )


def _draw_preferences(
    rates: Sequence[tuple[str, str, Estimate]], elo: Sequence[tuple[str, str, Estimate]], title: str
) -> Figure:
    from workbench.figures.static import figure_of

    panels = [(rates, "win rate of the first (ties as half) and 95 % interval")]
    if elo:
        panels.append((elo, "Elo (mean 1000) and 95 % interval"))
    sizes = [len(rows) + 2 for rows, _ in panels]
    figure = figure_of(7.2, 0.8 + 0.28 * sum(sizes), title)
    axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": sizes})[:, 0]
    for one, (rows, unit) in zip(axes, panels, strict=True):
        _forest(one, rows, unit)
    axes[0].axvline(0.5, color="#222222", linewidth=0.8)
    axes[0].set_xlim(-0.02, 1.02)
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


def reliability_diagram(calibrations: Mapping[str, Calibration], *, display_mode: str = "auto") -> View:
    """One line a model: accuracy of each bin of confidence with its 95 % interval, beside the perfect diagonal.

    Raises :class:`~workbench.errors.ConfigError` for no model.
    """
    if not calibrations:
        raise ConfigError("reliability_diagram needs at least one calibration")
    curves = [Curve(name="perfectly calibrated", x=[0.0, 1.0], y=[0.0, 1.0])]
    for name, found in calibrations.items():
        accuracies = [b.accuracy for b in found.bins]
        curves.append(
            Curve(
                name=f"{name}, error {found.expected_error.value:.3f}",
                x=[b.confidence for b in found.bins],
                y=[a.value for a in accuracies],
                low=[a.low for a in accuracies],
                high=[a.high for a in accuracies],
            )
        )
    task = next(iter(calibrations.values())).task
    return curve_plot(
        curves,
        x="confidence",
        y="share right",
        y_limits=(0.0, 1.0),
        note="Points are bins of equal width; bands are 95 % Wilson intervals of the share that is right.",
        title=f"Reliability on {task}" if task else "Reliability",
        display_mode=display_mode,
    )
