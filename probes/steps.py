"""The same experiment at every kept training step of a model: when does a layer come to know a property?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from probes.report import ProbeReport
from workbench.errors import TaskError
from workbench.figures import Curve, View, curve_plot
from workbench.statistics import Statistic

__all__ = ["over_steps", "steps_figure"]


def over_steps(reports: Mapping[int, ProbeReport], series: str | None = None) -> Statistic:
    """One series (the main one by default) of each step's report, with axes ``step`` and ``layer``."""
    if not reports:
        raise TaskError("no reports: give one for each training step")
    steps = sorted(reports)
    first = reports[steps[0]]
    name = series or first.metric
    rows = [[reports[step].at(name, layer) for layer in first.layers] for step in steps]
    return Statistic(
        name=name,
        unit="",
        values=np.array([[e.value for e in row] for row in rows]),
        axes=("step", "layer"),
        labels={"step": tuple(steps), "layer": first.layers},
        standard_error=np.array([[e.standard_error for e in row] for row in rows]),
        low=np.array([[e.low for e in row] for row in rows]),
        high=np.array([[e.high for e in row] for row in rows]),
        note=f"{first.task} in {first.model.rpartition('/')[0] or first.model}, {first.probe} probe",
    )


def steps_figure(statistic: Statistic, display_mode: str = "auto") -> View:
    """A curve over training steps for each layer, with the stored 95 % intervals as bands."""
    steps = [float(step) for step in statistic.labels["step"]]
    low, high = statistic.low, statistic.high
    if low is None or high is None:
        raise TaskError(f"{statistic.name} has no intervals to draw; make it with over_steps")
    curves = [
        Curve(
            name=f"layer {layer}",
            x=steps,
            y=statistic.values[:, k],
            low=low[:, k],
            high=high[:, k],
        )
        for k, layer in enumerate(statistic.labels["layer"])
    ]
    return curve_plot(
        curves,
        x="training step",
        y=statistic.name,
        title=f"{statistic.note}, over training",
        note="Bands are 95 % intervals, clustered by sentence.",
        display_mode=display_mode,
    )
