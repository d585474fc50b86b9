"""Curves with bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from workbench.analysis.context import ContextPoint
from workbench.errors import ConfigError
from workbench.estimate import Estimate
from workbench.figures._page import page
from workbench.figures._view import View
from workbench.figures.palette import OKABE_ITO
from workbench.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Curve", "context_curves", "curve_plot"]

_DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A named line through (x, y) with an optional band from ``low`` to ``high``; NaN breaks it."""

    name: str
    x: Sequence[float] | Array
    y: Sequence[float] | Array
    low: Sequence[float] | Array | None = None
    high: Sequence[float] | Array | None = None

    def __post_init__(self) -> None:
        sizes = {len(v) for v in (self.x, self.y, self.low, self.high) if v is not None}
        if len(sizes) != 1 or not len(self.x) or (self.low is None) != (self.high is None):
            raise ConfigError(
                f"curve {self.name!r}: x, y, low and high must be equally long, bands need both ends"
            )


def curve_plot(
    curves: Sequence[Curve],
    *,
    x: str = "layer",
    y: str = "value",
    y_limits: tuple[float, float] | None = None,
    note: str = "",
    title: str = "Curves",
    display_mode: str = "auto",
) -> View:
    """Lines (one colour and dash each) over named axes; the band is what the caller says it is in ``note``.

    Raises:
        ConfigError: no curve, or none with a finite point.

    Example:
        ```python
        from workbench.figures import Curve, curve_plot

        curve = Curve(name="accuracy", x=[0, 1, 2], y=[0.5, 0.7, 0.6], low=[0.4, 0.6, 0.5], high=[0.6, 0.8, 0.7])
        print(curve_plot([curve], note="Bands are 95 % intervals.").save("curve.html"))
        ```
    """
    if not curves:
        raise ConfigError("curve_plot needs at least one curve")
    every = np.concatenate(
        [np.asarray(v, float) for c in curves for v in (c.y, c.low, c.high) if v is not None]
    )
    across = np.concatenate([np.asarray(c.x, float) for c in curves])
    if not np.isfinite(every).any():
        raise ConfigError(f"none of the {len(curves)} curves has a finite point")
    low, high = y_limits or _padded(float(np.nanmin(every)), float(np.nanmax(every)))
    series = [
        {"name": c.name, **{key: _plain(getattr(c, key)) for key in ("x", "y", "low", "high")}}
        for c in curves
    ]
    limits = [float(across.min()), float(across.max()), low, high]
    plot = {"x": x, "y": y, "limits": limits, "series": series}
    return View(
        title=title,
        render=lambda: page(
            title=title, script="plot", data={"plot": plot, "note": note}, display_mode=display_mode
        ),
        draw=lambda: _draw_curves(curves, (x, y), (low, high), title),
        tabulate=lambda: pd.concat([_curve_frame(c) for c in curves], ignore_index=True),
        height=460,
    )


def _padded(low: float, high: float) -> tuple[float, float]:
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _plain(values: Sequence[float] | Array | None) -> list[float | None] | None:
    if values is None:
        return None
    return [float(v) if np.isfinite(v) else None for v in values]


def _curve_frame(curve: Curve) -> pd.DataFrame:
    columns = {key: np.asarray(getattr(curve, key), float) for key in ("x", "y")}
    if curve.low is not None:
        columns |= {key: np.asarray(getattr(curve, key), float) for key in ("low", "high")}
    return pd.DataFrame({"curve": curve.name, **columns})


def _draw_curves(
    curves: Sequence[Curve], names: tuple[str, str], limits: tuple[float, float], title: str
) -> Figure:
    from workbench.figures.static import figure_of

    figure = figure_of(7.0, 4.2, title)
    axes = figure.add_subplot()
    for number, curve in enumerate(curves):
        colour = OKABE_ITO[number % 8]
        axes.plot(
            curve.x, curve.y, _DASHES[number % 4], color=colour, label=curve.name, marker="o", markersize=3
        )
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel(names[0], parse_math=False)
    axes.set_ylabel(names[1], parse_math=False)
    axes.set_ylim(*limits)
    axes.grid(color="#d5dbe1", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    legend = figure.legend(loc="outside lower center", ncols=min(4, len(curves)), frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


_UNITS = {
    "loss": "loss (nats a target)",
    "accuracy": "accuracy",
    "increase": "loss above that of the full context (nats)",
}


def context_curves(
    points: Sequence[ContextPoint],
    quantity: str = "loss",
    *,
    note: str = "",
    title: str = "Context curves",
    display_mode: str = "auto",
) -> View:
    """One curve for each change of the context, over the distance up to which words are left as they are.

    ``quantity`` is "loss", "accuracy" or "increase". Bands are 95 % intervals over items: bootstrap, for accuracies
    Wilson; an increase is paired with the full context.

    Raises :class:`~workbench.errors.ConfigError` for another quantity, or without any changed context.
    """
    if quantity not in _UNITS:
        raise ConfigError(f"quantity={quantity!r} is not one of {', '.join(map(repr, _UNITS))}")
    changed = [point for point in points if point.distance is not None]
    if not changed:
        raise ConfigError("only the full context was scored; there is no curve to draw")
    names = list(dict.fromkeys(point.curve for point in changed))
    curves = [_curve(name, [p for p in changed if p.curve == name], quantity) for name in names]
    full = next((point for point in points if point.distance is None), None)
    if full is not None and quantity != "increase":
        ends = [min(p.distance or 0 for p in changed), max(p.distance or 0 for p in changed)]
        curves.append(_flat("full context", ends, getattr(full, quantity)))
    return curve_plot(
        curves,
        x="words next to the target that are left as they are",
        y=_UNITS[quantity],
        note=note or "Bands are 95 % intervals over the words predicted.",
        title=title,
        display_mode=display_mode,
    )


def _curve(name: str, points: Sequence[ContextPoint], quantity: str) -> Curve:
    values: list[Estimate] = [getattr(point, quantity) for point in points]
    return Curve(
        name=name,
        x=[float(point.distance or 0) for point in points],
        y=[value.value for value in values],
        low=[value.low for value in values],
        high=[value.high for value in values],
    )


def _flat(name: str, ends: Sequence[int], value: Estimate) -> Curve:
    return Curve(
        name=name,
        x=[float(end) for end in ends],
        y=[value.value] * 2,
        low=[value.low] * 2,
        high=[value.high] * 2,
    )
