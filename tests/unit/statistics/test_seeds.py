from __future__ import annotations

import math

import pytest

from workbench.errors import NumericsError
from workbench.statistics import Estimate, over_seeds, wilson


def estimate(value: float, error: float, n: int = 100) -> Estimate:
    return Estimate(value=value, standard_error=error, low=0, high=1, n=n, higher_is_better=True)


def test_both_sources_by_hand():
    # Values 0.6, 0.7, 0.8: standard deviation 0.1 over sqrt(3) seeds; every item error 0.04.
    found = over_seeds([estimate(0.6, 0.04), estimate(0.7, 0.04), estimate(0.8, 0.04)])
    assert found.total.value == pytest.approx(0.7)
    assert found.seed_error == pytest.approx(0.1 / 3**0.5)
    assert found.item_error == pytest.approx(0.04)
    assert found.total.standard_error == pytest.approx((0.01 / 3 + 0.0016) ** 0.5)
    # t of 2 degrees 4.3027 times 0.05774, and of 99 degrees 1.9842 times 0.04, joined by their squares.
    assert found.total.high - 0.7 == pytest.approx(math.hypot(4.3027 * 0.05774, 1.9842 * 0.04), rel=1e-3)
    assert "3 seeds" in str(found)


def test_one_seed_or_other_items_are_refused():
    with pytest.raises(NumericsError, match="two or more"):
        over_seeds([estimate(0.5, 0.1)])
    with pytest.raises(NumericsError, match=r"\[100, 200\]"):
        over_seeds([estimate(0.5, 0.1), estimate(0.5, 0.1, n=200)])


def test_seeds_that_are_all_right_keep_the_items_interval():
    """No spread between seeds and a plug-in error of 0: Wilson's interval of 20 of 20 is 0.8389 to 1 (z = 1.96)."""
    found = over_seeds([wilson(20, 20)] * 3).total
    assert (found.low, found.high) == (pytest.approx(1 / (1 + 1.959964**2 / 20)), 1.0)
    assert found.undefined is None


def test_what_one_seed_leaves_undefined_is_undefined_in_the_mean():
    nothing = Estimate.without_interval(float("nan"), 100, "every prediction is 1", method="bootstrap")
    found = over_seeds([estimate(0.5, 0.1), nothing])
    assert str(found.total) == "undefined (one seed: every prediction is 1)"
    alike = Estimate.without_interval(0.5, 100, "the values have no spread", method="bootstrap")
    found = over_seeds([alike, alike])
    assert str(found.total) == "0.5000, interval undefined (one seed: the values have no spread)"
