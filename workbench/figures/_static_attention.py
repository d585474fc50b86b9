"""Attention drawn by matplotlib: lines between two columns, thumbnails of all heads, one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path

from workbench.figures._maps import AttentionMap
from workbench.figures.palette import NEGATIVE, POSITIVE, Dash, diverging, head_style, sequential
from workbench.figures.static import figure_of, label_ticks
from workbench.shapes import Array

__all__ = ["MatrixStyle", "draw_head", "draw_matrix", "draw_model", "draw_neurons"]

MAX_LINES = 2500
MAX_CELLS = 80  # of more rows or columns of a matrix each is drawn smaller
MAX_NAMES = 190  # as many as fit the tallest figure; of more tokens every n-th is named


@dataclass(frozen=True)
class MatrixStyle:
    """How a matrix is drawn: axis names, colour limits, signed or not, values written or not, and unit."""

    axes: tuple[str, str]
    low: float
    high: float
    signed: bool = False
    annotate: bool = False
    unit: str = ""


def draw_head(attention: AttentionMap, layer: int, heads: Sequence[int], title: str) -> Figure:
    """Lines from attending (left) to attended tokens (right); ``layer`` and ``heads`` are positions."""
    queries, keys = attention.queries.shown, attention.keys.shown
    rows = max(len(queries), len(keys))
    figure = figure_of(6.4, 1.2 + 0.2 * rows, title)
    axes = figure.add_subplot()
    axes.set(xlim=(-0.6, 1.6), ylim=(rows - 0.4, -1.6))
    axes.axis("off")
    _name_columns(axes, queries, keys)
    weights = attention.weights[layer]
    floor = _visible_floor(weights[list(heads)])
    top = float(np.abs(weights[list(heads)]).max(initial=0.0))
    for place, head in enumerate(heads):
        shift = 0.6 * ((place + 0.5) / len(heads) - 0.5)  # heads' lines lie beside each other, not on top
        style = _LineStyle(*head_style(attention.heads[head]), floor, top, attention.signed)
        _add_lines(axes, weights[head], style, shift)
    numbers = [attention.heads[head] for head in heads]
    name = f"layer {attention.layers[layer]}, heads"
    if attention.signed:
        _sign_legend(figure, f"{name} {', '.join(map(str, numbers))}")
    else:
        _head_legend(figure, numbers, name)
    return figure


def draw_model(attention: AttentionMap, title: str) -> Figure:
    """Every head as a small heat map (queries down, keys across), each scaled to its own strongest weight."""
    layers, heads = attention.weights.shape[:2]
    figure = figure_of(1.2 + 0.7 * heads, 1.2 + 0.7 * layers, title)
    axes = figure.add_subplot()
    for layer in range(layers):
        for head in range(heads):
            values = attention.weights[layer, head]
            extent = (head - 0.46, head + 0.46, layer + 0.46, layer - 0.46)
            most = float(np.abs(values).max()) or 1.0
            low, colours = (-most, diverging()) if attention.signed else (0.0, sequential())
            axes.imshow(values, cmap=colours, vmin=low, vmax=most, extent=extent, aspect="auto")
    axes.set(
        xlim=(-0.5, heads - 0.5), ylim=(layers - 0.5, -0.5), xlabel="head", ylabel="layer", aspect="equal"
    )
    axes.set_xticks(range(heads), labels=[str(head) for head in attention.heads])
    axes.set_yticks(range(layers), labels=[str(layer) for layer in attention.layers])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.hlines(np.arange(layers - 1) + 0.5, -0.5, heads - 0.5, color="#d5dbe1", linewidth=0.6)
    axes.vlines(np.arange(heads - 1) + 0.5, -0.5, layers - 0.5, color="#d5dbe1", linewidth=0.6)
    return figure


def draw_matrix(
    values: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    style: MatrixStyle,
    title: str,
    uncoloured: int = 0,
) -> Figure:
    """A labelled heat map with its colour bar; the last ``uncoloured`` columns are numbers alone."""
    coloured = len(columns) - uncoloured
    width = 0.34 * (min(coloured, MAX_CELLS) + uncoloured)
    figure = figure_of(2.4 + width, 1.8 + 0.3 * min(len(rows), MAX_CELLS), title)
    axes = figure.add_subplot()
    limit = max(abs(style.low), abs(style.high))
    low, high = (-limit, limit) if style.signed else (style.low, style.high)
    colours = diverging() if style.signed else sequential()
    plain = np.arange(len(columns)) >= coloured
    image = axes.imshow(np.where(plain, np.nan, values), cmap=colours, vmin=low, vmax=high, aspect="auto")
    label_ticks(axes, rows, columns[:coloured])
    places = _column_places(coloured, uncoloured)
    if uncoloured:
        axes.set_xlim(-0.5, places[-1] + places[coloured] - coloured + 0.5)
        axes.set_xticks(places[coloured:], columns[coloured:], minor=True, rotation=90, parse_math=False)
        axes.tick_params(which="minor", length=0)
    axes.set_ylabel(style.axes[0], parse_math=False)
    axes.set_xlabel(style.axes[1], parse_math=False)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label=style.unit, pad=0.01, fraction=0.04)
    written = plain | (style.annotate and values.size <= 900)
    middle = (low + high) / 2 if not style.signed else 0.0
    _write_values(axes, np.where(written, values, np.nan), places, middle, limit, style.signed, plain)
    return figure


def _column_places(coloured: int, uncoloured: int) -> Array:
    """Where columns lie: numbers alone get the width that they need where the coloured ones are narrower."""
    wide = max(1.0, coloured / MAX_CELLS)
    return np.concatenate([np.arange(coloured), coloured - 0.5 + wide * (np.arange(uncoloured) + 0.5)])


def draw_neurons(
    query: Array, keys: Array, scores: tuple[Array, Array], labels: tuple[str, Sequence[str]], title: str
) -> Figure:
    """One query (width,) against keys (key, width): keys, products, and per key q · k and attention."""
    products = keys * query
    name, tokens = labels
    figure = figure_of(9.5, 1.6 + 0.24 * len(tokens), title)
    axes = figure.subplots(1, 4, sharey=True, width_ratios=[3, 3, 1, 1])
    for panel, values, heading in zip(
        axes, (keys, products), ("keys k", f"q × k for q = {name}"), strict=False
    ):
        limit = float(np.abs(values).max()) or 1.0
        panel.imshow(values, cmap=diverging(), vmin=-limit, vmax=limit, aspect="auto")
        panel.set_title(heading, fontsize=9, parse_math=False)
        panel.set_xticks([])
    for panel, values, heading in zip(axes[2:], scores, ("q · k", "attention"), strict=True):
        panel.barh(range(len(tokens)), values, color=["#0072B2" if v >= 0 else "#D55E00" for v in values])
        panel.axvline(0, color="#59636e", linewidth=0.8)
        panel.set_title(heading, fontsize=9)
        panel.spines[["top", "right", "left"]].set_visible(False)
    axes[0].set_yticks(range(len(tokens)), labels=tokens, parse_math=False)
    for panel in axes:
        panel.tick_params(axis="y", length=0)
    return figure


def _name_columns(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    axes.text(-0.02, -1.1, "attends (query)", ha="right", va="center", color="#59636e", fontsize=8)
    axes.text(1.02, -1.1, "attended to (key)", ha="left", va="center", color="#59636e", fontsize=8)
    for tokens, place, side in ((queries, -0.02, "right"), (keys, 1.02, "left")):
        step = -(-len(tokens) // MAX_NAMES)
        for row in range(0, len(tokens), step):
            axes.text(place, row, tokens[row], ha=side, va="center", parse_math=False)


def _visible_floor(weights: Array) -> float:
    """Weight below which a line is left out: too faint to see, or beyond the strongest MAX_LINES."""
    if weights.size == 0:
        return 0.0
    weights = np.abs(weights)
    floor = 0.03 * float(weights.max())
    if weights.size > MAX_LINES:
        floor = max(floor, float(np.partition(weights.ravel(), -MAX_LINES)[-MAX_LINES]))
    return floor


@dataclass(frozen=True)
class _LineStyle:
    """A head's colour and dash; the weight below which no line is drawn, and the strongest one; colours by sign."""

    colour: str
    dash: Dash
    floor: float
    top: float
    signed: bool


def _add_lines(axes: Axes, weights: Array, style: _LineStyle, shift: float) -> None:
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    queries, keys = np.nonzero(np.abs(weights) >= max(style.floor, 1e-9))
    ends = zip(queries + shift, keys + shift, strict=True)
    paths = [Path([(0, q), (0.42, q), (0.58, k), (1, k)], codes) for q, k in ends]
    strength = np.abs(weights[queries, keys]) / (style.top or 1.0)
    by_sign = [POSITIVE if weight > 0 else NEGATIVE for weight in weights[queries, keys]]
    lines = PathCollection(
        paths,
        facecolors="none",
        edgecolors=by_sign if style.signed else style.colour,
        linewidths=0.4 + 2 * strength,
        linestyles=[style.dash],
    )
    lines.set_alpha(np.clip(1.05 * strength**1.3, 0, 1).tolist())
    axes.add_collection(lines, autolim=False)


def _head_legend(figure: Figure, heads: Sequence[int], name: str) -> None:
    handles = [
        Line2D([], [], color=head_style(head)[0], linestyle=head_style(head)[1], label=str(head))
        for head in heads
    ]
    if handles:
        columns = min(len(handles), 12)
        figure.legend(handles=handles, title=name, ncols=columns, loc="outside lower center", frameon=False)


def _sign_legend(figure: Figure, name: str) -> None:
    named = ((POSITIVE, "positive"), (NEGATIVE, "negative"))
    handles = [Line2D([], [], color=colour, label=label) for colour, label in named]
    figure.legend(handles=handles, title=name, ncols=2, loc="outside lower center", frameon=False)


def _write_values(
    axes: Axes, values: Array, places: Array, middle: float, limit: float, signed: bool, plain: Array
) -> None:
    size = min(6.0, 17 * MAX_CELLS / len(values))
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        dark = not plain[column] and (abs(value) > 0.45 * limit if signed else value > middle)
        axes.text(
            float(places[column]),
            row,
            f"{value:.2f}",
            ha="center",
            va="center",
            fontsize=size,
            color="white" if dark else "black",
        )
