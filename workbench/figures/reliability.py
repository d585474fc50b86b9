"""Reliability diagrams: how often a model is right against how sure it is."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.errors import ConfigError
from workbench.evaluate.calibration import Calibration
from workbench.figures._view import View
from workbench.figures.plots import Curve, curve_plot

__all__ = ["reliability_diagram"]


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
