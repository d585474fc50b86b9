"""What each layer would predict: a grid of words, and the course of a prediction through the layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.analysis.lens import LensReading
from workbench.errors import ConfigError
from workbench.figures._maps import check_length, shown_tokens
from workbench.figures._page import page
from workbench.figures._view import View, frame_height
from workbench.figures.plots import Curve, curve_plot
from workbench.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["lens_grid", "lens_trajectory"]


def lens_grid(reading: LensReading, *, title: str | None = None, display_mode: str = "auto") -> View:
    """Layers up, positions across; each cell the layer's likeliest token, coloured by a quantity to choose.

    Hovering (or the keyboard) reads a cell's best tokens, entropy, divergence from the output, and the target's
    probability and rank. The margin, where there is a contrast, has a scale centred at zero.

    Raises :class:`~workbench.errors.ConfigError` for more positions than a view takes.
    """
    check_length(len(reading.tokens), "lens grid")
    grid = _Grid(reading, title or f"{reading.lens.capitalize()} lens: {reading.model}")
    return View(
        title=grid.title,
        render=lambda: page(
            title=grid.title,
            script="lens",
            parts=("matrix",),
            data={"grid": grid.record(), "note": grid.note},
            display_mode=display_mode,
        ),
        draw=grid.draw,
        tabulate=reading.to_frame,
        height=frame_height(reading.layers, 27, 220),
    )


def lens_trajectory(reading: LensReading, position: int = -1, *, display_mode: str = "auto") -> View:
    """Entropy, divergence and the target's (and contrast's) log-probability at one position, by layer.

    ``position`` counts among those that were read. Raises :class:`~workbench.errors.ConfigError` out of range.
    """
    count = len(reading.positions)
    if not -count <= position < count:
        raise ConfigError(f"position {position} is out of range: {count} positions were read")
    layers = np.arange(reading.layers)
    names = ["target log-probability", "entropy", "divergence"]
    names += ["contrast log-probability"] if reading.contrast is not None else []
    curves = [
        Curve(name=_named(reading, name, position), x=layers, y=reading.statistic(name).values[:, position])
        for name in names
    ]
    token = shown_tokens([reading.tokens[position]], prettify=True)[0]
    settled = int(reading.settling[position])
    return curve_plot(
        curves,
        y="nats",
        note="; ".join(
            [f"the prediction stays from layer {settled} of {reading.layers - 1} on", *reading.notes]
        ),
        title=f"{reading.lens.capitalize()} lens after {token!r}: {reading.model}",
        display_mode=display_mode,
    )


def _named(reading: LensReading, name: str, position: int) -> str:
    if name.startswith("target"):
        final = reading.top_tokens[-1][position][0]
        return f"log-probability of {shown_tokens([_target(reading, final)], prettify=True)[0]}"
    if name.startswith("contrast"):
        assert reading.contrast is not None
        return f"log-probability of {shown_tokens([reading.contrast.token], prettify=True)[0]}"
    return "divergence from the output" if name == "divergence" else name


def _target(reading: LensReading, final: str) -> str:
    return final if reading.target is None else reading.target.token


@dataclass(frozen=True)
class _Grid:
    reading: LensReading
    title: str

    @property
    def note(self) -> str:
        """What the target is, and what the user must know of it."""
        r = self.reading
        target = "each position's own output" if r.target is None else repr(r.target.text)
        contrast = "" if r.contrast is None else f", contrast {r.contrast.text!r}"
        return "; ".join([f"target: {target}{contrast}", *r.notes])

    @property
    def layers(self) -> list[str]:
        """Names of the rows, from the bottom up."""
        return ["0 (embeddings)", *(str(n) for n in range(1, self.reading.layers - 1)), "output"]

    def record(self) -> dict[str, Any]:
        """What the script draws."""
        r = self.reading
        return {
            "layers": self.layers,
            "tokens": shown_tokens(r.tokens, prettify=True),
            "cells": [[self._cell(n, p) for p in range(len(r.tokens))] for n in range(r.layers)],
            "settling": [int(n) for n in r.settling],
            "quantities": self._quantities(),
        }

    def _cell(self, layer: int, position: int) -> dict[str, Any]:
        return {
            "tokens": shown_tokens(self.reading.top_tokens[layer][position], prettify=True),
            "probabilities": [round(float(p), 5) for p in self.reading.top_probabilities[layer, position]],
        }

    def _quantities(self) -> list[dict[str, Any]]:
        r = self.reading
        chosen: list[tuple[str, str, Array]] = [
            ("probability of the likeliest", "", r.top_probabilities[:, :, 0]),
            ("probability of the target", "", np.exp(r.target_log_probability)),
            ("rank of the target", "", r.target_rank),
            ("entropy", "nats", r.entropy),
            ("divergence from the output", "nats", r.divergence),
        ]
        if r.contrast is not None:
            chosen.insert(0, ("margin of target over contrast", "nats", r.margin))
        return [self._quantity(*one) for one in chosen]

    def _quantity(self, name: str, unit: str, values: Array) -> dict[str, Any]:
        signed, share = name.startswith("margin"), name.startswith("probability")
        return {
            "name": name,
            "unit": unit,
            "values": [[round(float(v), 5) for v in row] for row in values],
            "low": 0.0,
            "high": 1.0 if share else max(float(np.abs(values).max()), 1e-9),
            "signed": signed,
            "logarithmic": name.startswith("rank"),
        }

    def draw(self) -> Figure:
        """The words on the probability of each layer's likeliest, or on the margin."""
        from workbench.figures.palette import diverging, sequential
        from workbench.figures.static import figure_of, label_ticks

        r = self.reading
        signed = r.contrast is not None
        values = (r.margin if signed else r.top_probabilities[:, :, 0])[::-1]
        limit = max(float(np.abs(values).max()), 1e-9) if signed else 1.0
        figure = figure_of(1.6 + 0.85 * len(r.tokens), 1.4 + 0.26 * r.layers, self.title)
        axes = figure.add_subplot()
        colours = diverging() if signed else sequential()
        image = axes.imshow(values, cmap=colours, vmin=-limit if signed else 0, vmax=limit, aspect="auto")
        label_ticks(axes, self.layers[::-1], shown_tokens(r.tokens, prettify=True))
        axes.tick_params(axis="x", labelrotation=30)
        axes.spines[:].set_visible(False)
        for (row, column), value in np.ndenumerate(values):
            words = shown_tokens(r.top_tokens[r.layers - 1 - row][column][:1], prettify=True)[0]
            dark = abs(value) > 0.45 * limit
            style: dict[str, Any] = {
                "ha": "center",
                "va": "center",
                "fontsize": 6.5,
                "color": "white" if dark else "black",
            }
            axes.text(column, row, words[:12], parse_math=False, **style)
        label = "margin (nats)" if signed else "probability of the likeliest token"
        figure.colorbar(image, ax=axes, label=label, pad=0.01, fraction=0.04)
        return figure
