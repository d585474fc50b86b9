"""Experiments over training steps: what is drawn is the interval that is stored."""

from __future__ import annotations

import numpy as np
import pytest

import probes.steps
from probes.report import ProbeReport
from workbench.figures import Curve
from workbench.statistics import Estimate


def test_bands_are_the_stored_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Near 1 a bootstrap interval is lopsided: 0.8 to 0.97 about 0.95 is not 0.95 plus or minus anything."""
    estimate = Estimate(value=0.95, standard_error=0.05, low=0.8, high=0.97, n=20)
    report = ProbeReport(
        model="tiny",
        task="pos",
        probe="linear",
        metric="accuracy",
        layers=(0,),
        series={"accuracy": (estimate,)},
    )
    drawn: list[Curve] = []
    monkeypatch.setattr(probes.steps, "curve_plot", lambda curves, **_: drawn.extend(curves))
    probes.steps.steps_figure(probes.steps.over_steps({0: report, 5: report}))
    np.testing.assert_array_equal(drawn[0].low, [0.8, 0.8])
    np.testing.assert_array_equal(drawn[0].high, [0.97, 0.97])
