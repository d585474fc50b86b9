"""95 % intervals hold the true value in 93 to 97 % of samples drawn with a fixed seed, or the case says why not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.coverage import CASES, Case, coverage
from workbench.statistics import bootstrap


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_intervals_hold_the_true_value_as_often_as_stated(case: Case) -> None:
    assert case.least <= coverage(case) <= case.most
    assert bool(case.why) is ((case.least, case.most) != (0.93, 0.97))


def test_items_taken_as_independent_would_not_cover() -> None:
    # 60 passages of 2 to 8 questions without their labels: the design effect is near 3.
    rng = np.random.default_rng(2)
    sizes = rng.integers(2, 9, (150, 60))
    samples = [np.repeat(rng.normal(size=60), s) + rng.normal(size=s.sum()) for s in sizes]
    found = [bootstrap(s, seed=i, resamples=200) for i, s in enumerate(samples)]
    assert np.mean([e.low <= 0.0 <= e.high for e in found]) < 0.8
