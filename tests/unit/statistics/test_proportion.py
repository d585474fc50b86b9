from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint

from workbench.errors import NumericsError
from workbench.statistics import Estimate, wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (98, 300), (1, 1), (2550, 5153)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_agrees_with_statsmodels(successes, n, confidence):
    estimate = wilson(successes, n, confidence)
    low, high = proportion_confint(successes, n, alpha=1 - confidence, method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-12)


def test_worked_example():
    # n = 10, p = 0.5, z = 1.95996: centre 0.5, half width z sqrt(1/40 + z^2/400) / (1 + z^2/10).
    z = 1.959963984540054
    half = z * math.sqrt(1 / 40 + z * z / 400) / (1 + z * z / 10)
    estimate = wilson(5, 10)
    assert (estimate.low, estimate.high) == pytest.approx((0.5 - half, 0.5 + half))
    assert estimate.standard_error == pytest.approx(math.sqrt(0.25 / 9))  # n - 1, as lm-eval
    assert estimate.method == "wilson"


def test_coverage_computed_exactly_is_near_its_level():
    # Sum of binomial probabilities of the counts whose interval holds p = 0.3, n = 100: no simulation.
    inside = [k for k in range(101) if wilson(k, 100).low <= 0.3 <= wilson(k, 100).high]
    assert np.sum(binom.pmf(inside, 100, 0.3)) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("hit", [0, 1])
def test_a_share_of_one_case_keeps_wilsons_interval_and_says_why_it_has_no_standard_error(hit):
    estimate = wilson(
        hit, 1
    )  # z^2 / (1 + z^2) = 0.7935: how far Wilson's interval reaches from 0 or 1 at n = 1
    far = 1.959963984540054**2 / (1 + 1.959963984540054**2)
    assert (estimate.low, estimate.high) == pytest.approx((0, far) if not hit else (1 - far, 1))
    assert math.isnan(estimate.standard_error)
    assert estimate.undefined == "one item has no spread"
    assert Estimate.from_dict(estimate.to_dict()).cells(3) == estimate.cells(3)
    shown = {0: ("0.000", "0.000", "0.793"), 1: ("1.000", "0.207", "1.000")}[hit]
    assert estimate.cells(3) == (shown[0], "undefined (one item has no spread)", *shown[1:])


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(successes, n):
    with pytest.raises(NumericsError, match="0 <= successes <= n"):
        wilson(successes, n)
