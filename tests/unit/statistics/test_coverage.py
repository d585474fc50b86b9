"""Simulations with fixed seeds: 95 % intervals hold the true value in 93 to 97 % of the samples."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.statistics import Estimate, bootstrap, over_seeds, wilson


def covered(estimates: list[Estimate], truth: float) -> float:
    return float(np.mean([e.low <= truth <= e.high for e in estimates]))


@pytest.mark.parametrize("share", [0.1, 0.33, 0.8])
def test_wilson_of_binomial_counts(share):
    counts = np.random.default_rng(0).binomial(200, share, size=2000)
    intervals = {int(k): wilson(int(k), 200) for k in set(counts)}
    assert 0.93 <= covered([intervals[int(k)] for k in counts], share) <= 0.97


def test_bootstrap_of_right_and_wrong():
    rng = np.random.default_rng(1)
    samples = (rng.random((500, 200)) < 0.7).astype(float)
    assert 0.93 <= covered([bootstrap(s, seed=i, resamples=400) for i, s in enumerate(samples)], 0.7) <= 0.97


def test_bootstrap_of_clustered_values():
    # 60 passages of 2 to 8 questions; passages differ as much as questions within them do. The share of covered
    # samples has a standard error of 0.8 points.
    rng = np.random.default_rng(11)

    def draw(seed: int) -> Estimate:
        sizes = rng.integers(2, 9, 60)
        labels = np.repeat(np.arange(60), sizes)
        values = np.repeat(rng.normal(size=60), sizes) + rng.normal(size=sizes.sum())
        return bootstrap(values, seed=seed, resamples=800, clusters=labels)

    assert 0.93 <= covered([draw(i) for i in range(700)], 0.0) <= 0.97


def test_items_taken_as_independent_would_not_cover():
    # The same passages without their labels: the design effect is near 3, so coverage falls below 80 %.
    rng = np.random.default_rng(2)
    sizes = rng.integers(2, 9, (150, 60))
    samples = [np.repeat(rng.normal(size=60), s) + rng.normal(size=s.sum()) for s in sizes]
    assert covered([bootstrap(s, seed=i, resamples=200) for i, s in enumerate(samples)], 0.0) < 0.8


def test_bca_of_skewed_values():
    # Losses are skewed: exponential, 150 of them.
    rng = np.random.default_rng(3)
    samples = rng.exponential(size=(500, 150))
    found = [bootstrap(s, seed=i, resamples=500, method="bca") for i, s in enumerate(samples)]
    assert 0.93 <= covered(found, 1.0) <= 0.97


def test_over_seeds_covers_both_sources():
    # Accuracy over 5 seeds that vary by 0.02 and 400 items right with probability 0.8, the same for all seeds.
    rng = np.random.default_rng(4)
    found = []
    for _ in range(1500):
        item_error = np.sqrt(0.8 * 0.2 / 400)
        of_items = rng.normal(0, item_error)
        values = 0.8 + of_items + rng.normal(0, 0.02, 5)
        estimates = [
            Estimate(value=float(v), standard_error=float(item_error), low=0, high=1, n=400) for v in values
        ]
        found.append(over_seeds(estimates).total)
    assert 0.93 <= covered(found, 0.8) <= 0.97
