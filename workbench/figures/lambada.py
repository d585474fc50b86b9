"""Figures of word-prediction results."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workbench.errors import DataError
from workbench.figures.palette import NEGATIVE, POSITIVE
from workbench.shapes import Array

__all__ = ["log_probability_by_length"]

_LONGEST = 8  # targets of this many tokens or more share the last place
_RASTER_FROM = 1500  # points; more make a vector figure slow to open


def log_probability_by_length(examples: pd.DataFrame, *, ink: str = "#222222") -> Figure:
    """Natural log-probability of each target against its number of tokens, with medians and quartiles.

    ``examples`` needs the columns ``log_probability`` and ``tokens``, and colours points by ``greedy`` where
    it is there. ``ink`` colours text and axes. Raises :class:`~workbench.errors.DataError` if nothing can
    be drawn.
    """
    missing = [name for name in ("log_probability", "tokens") if name not in examples]
    if missing:
        raise DataError(f"the figure needs columns {missing}, the examples have {list(examples.columns)}")
    rows = examples[np.isfinite(examples["log_probability"].astype(float)) & (examples["tokens"] > 0)]
    if rows.empty:
        raise DataError("there is no example with a finite log-probability to draw")
    lengths = np.minimum(rows["tokens"].to_numpy(), _LONGEST).astype(int)
    values = rows["log_probability"].to_numpy(dtype=float)
    hits = rows["greedy"].to_numpy(dtype=bool) if "greedy" in rows else np.ones(len(rows), bool)

    figure = Figure(figsize=(7.4, 3.8), layout="constrained", facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    _draw_points(axes, lengths, values, hits)
    _draw_boxes(axes, lengths, values, ink)
    axes.set_xlabel("target length (tokens; number of passages below)")
    axes.set_ylabel("log-probability of the target (nats)")
    if "greedy" in rows:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False, labelcolor=ink)
    _colour(axes, ink)
    return figure


def _draw_points(axes: Axes, lengths: Array, values: Array, hits: Array) -> None:
    jitter = np.random.default_rng(0).uniform(-0.32, 0.32, len(values))
    for hit, colour, label in ((True, POSITIVE, "greedy decoding is right"), (False, NEGATIVE, "is wrong")):
        chosen = hits == hit
        axes.scatter(
            (lengths + jitter)[chosen],
            values[chosen],
            s=9,
            alpha=0.75,
            linewidths=0,
            color=colour,
            label=label,
            rasterized=len(values) > _RASTER_FROM,
        )


def _draw_boxes(axes: Axes, lengths: Array, values: Array, ink: str) -> None:
    present = np.unique(lengths)
    names = [f"≥{n}" if n == _LONGEST else str(n) for n in present]
    counts = [int((lengths == n).sum()) for n in present]
    line = {"color": ink, "linewidth": 1.1}
    axes.boxplot(
        [values[lengths == n] for n in present],
        positions=present,
        widths=0.74,
        showfliers=False,
        showcaps=False,
        boxprops=line,
        whiskerprops=line,
        medianprops={"color": ink, "linewidth": 2.2},
        manage_ticks=False,
    )
    axes.set_xticks(present, [f"{name}\nn = {count}" for name, count in zip(names, counts, strict=True)])
    axes.set_xlim(present[0] - 0.6, present[-1] + 0.6)


def _colour(axes: Axes, ink: str) -> None:
    axes.tick_params(colors=ink, which="both")
    axes.xaxis.label.set_color(ink)
    axes.yaxis.label.set_color(ink)
    axes.grid(axis="y", color=ink, alpha=0.15, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(ink)
