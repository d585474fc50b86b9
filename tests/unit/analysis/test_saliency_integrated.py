"""The pace along a path, and the rules' points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.analysis.saliency_models import tiny_classifier
from workbench.analysis.saliency import SaliencyOptions, attribute, attribute_all
from workbench.analysis.saliency._integrated import _by_angle, clenshaw_curtis

TEXTS = ["the keys to the cabinet", "the key is on the table", "cats"]


@pytest.mark.parametrize(
    "start", [torch.zeros(4, 8), torch.full((4, 8), 0.1), torch.linspace(-1, 1, 32).view(4, 8)]
)
def test_a_pace_goes_from_start_to_end_and_knows_its_speed(start: torch.Tensor) -> None:
    end = torch.sin(torch.arange(32.0)).view(4, 8)
    end[0] = start[0]  # a token that is not explained does not move
    pace = _by_angle(start, end)
    times = np.linspace(0, 1, 101)
    shares, speeds = pace(times)
    assert shares[0] == pytest.approx(0, abs=1e-12)
    assert shares[-1] == pytest.approx(1, abs=1e-12)
    assert np.all(np.diff(shares) > 0)
    slopes = (pace(times[1:-1] + 1e-6)[0] - pace(times[1:-1] - 1e-6)[0]) / 2e-6
    np.testing.assert_allclose(speeds[1:-1], slopes, rtol=1e-6)


def test_a_path_of_length_zero_has_a_pace() -> None:
    shares, speeds = _by_angle(torch.ones(3, 4), torch.ones(3, 4))(np.array([0.0, 0.5, 1.0]))
    assert shares.tolist() == [0, 0.5, 1]
    assert speeds.tolist() == [1, 1, 1]


@pytest.mark.parametrize("intervals", [1, 2, 9, 10, 19])
def test_clenshaw_curtis_is_exact_for_polynomials(intervals: int) -> None:
    points, weights = clenshaw_curtis(intervals)
    for degree in range(intervals + 1):
        assert weights @ points**degree == pytest.approx(1 / (degree + 1), abs=1e-12)


@pytest.mark.parametrize("baseline", ["pad", "zero", "mean"])
def test_scores_are_those_of_many_even_steps(baseline: Any) -> None:
    model = tiny_classifier()
    found = attribute_all(
        model, TEXTS, targets=[1] * 3, baseline=baseline, options=SaliencyOptions(tolerance=1e-4)
    )
    exact = attribute_all(
        model, TEXTS, targets=[1] * 3, baseline=baseline, options=SaliencyOptions(steps=600)
    )
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=2e-4)
        assert one.value == pytest.approx(other.value, abs=1e-6)
        assert one.baseline_value == pytest.approx(other.baseline_value or 0.0, abs=1e-6)
        assert abs(one.delta or 0.0) <= 1e-4 * max(abs(one.value - (one.baseline_value or 0.0)), 0.1) + 1e-6


def test_a_tighter_tolerance_begins_with_more_points() -> None:
    steps = [
        attribute(tiny_classifier(), TEXTS[0], target=1, options=SaliencyOptions(tolerance=t)).steps or 0
        for t in (0.05, 1e-3, 1e-4)
    ]
    assert steps[0] == 19
    assert steps[1] >= 35
    assert steps[2] >= 45
