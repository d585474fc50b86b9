"""Loss or accuracy against how much of the context is left."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.context import ContextPoint
from workbench.errors import ConfigError
from workbench.estimate import Estimate
from workbench.figures._view import View
from workbench.figures.plots import Curve, curve_plot

__all__ = ["context_curves"]

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
