from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from workbench.errors import NumericsError
from workbench.statistics import bootstrap, mean_estimate, wilson


def _mean(values, axis):
    """A statistic that is not recognised as the mean."""
    return np.mean(values, axis=axis)


@pytest.mark.parametrize("n", [2, 4, 60])
def test_the_standard_error_of_a_mean_is_that_of_lm_eval(n):
    values = np.random.default_rng(0).gamma(2.0, size=n)
    # lm_eval.api.metrics: sample_stddev(arr) / sqrt(len(arr)), the deviation with n - 1
    expected = math.sqrt(sum((v - sum(values) / n) ** 2 for v in values) / (n - 1)) / math.sqrt(n)
    assert bootstrap(values, seed=0).standard_error == pytest.approx(expected)
    right = np.array([1.0] * (n // 2) + [0.0] * (n - n // 2))
    marks = wilson(n // 2, n)
    assert marks.standard_error == pytest.approx(right.std(ddof=1) / math.sqrt(n))
    assert mean_estimate(right, seed=0).standard_error == marks.standard_error
    metrics = pytest.importorskip("lm_eval.api.metrics", reason="pip install lm-eval==0.4.13")
    assert bootstrap(values, seed=0).standard_error == pytest.approx(metrics.mean_stderr(list(values)))
    assert marks.standard_error == pytest.approx(metrics.mean_stderr(list(right)))


def test_standard_error_is_that_of_all_27_resamples_of_three_values():
    # All 3^3 resamples of (0, 1, 2) are equally likely; their means have variance (2/3)/3.
    estimate = bootstrap([0, 1, 2], _mean, seed=0, resamples=40_000)
    assert estimate.value == 1.0
    assert estimate.standard_error == pytest.approx(math.sqrt(2 / 9), rel=0.01)
    # 1 of 27 resamples has mean 0 and 1 has mean 2, so the 2.5 % quantiles are those two.
    assert (estimate.low, estimate.high) == (0.0, 2.0)
    assert (estimate.n, estimate.method, estimate.confidence) == (3, "percentile bootstrap", 0.95)


def test_agrees_with_scipy_for_the_median():
    values = np.random.default_rng(1).gamma(2.0, size=200)
    ours = bootstrap(values, np.median, seed=3, resamples=4000, confidence=0.9)
    # sqrt(200/199) t(0.95, 199) = 1.6567, which a normal distribution has at 2 Phi(1.6567) - 1 = 0.90242.
    theirs = stats.bootstrap(
        (values,), np.median, n_resamples=4000, method="percentile", confidence_level=0.90242, rng=99
    )
    assert ours.value == np.median(values)
    # Different random draws: equal up to the Monte Carlo error of 4,000 resamples.
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.05)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.05)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.1)


def test_the_interval_of_a_mean_is_that_of_a_loop_over_resampled_t():
    values = np.random.default_rng(1).gamma(0.7, size=25)
    ours = bootstrap(values, seed=3, resamples=20_000, confidence=0.9)
    rng, found = np.random.default_rng(99), []
    for _ in range(20_000):
        drawn = rng.choice(values, 25)
        found.append((drawn.mean() - values.mean()) / stats.sem(drawn))
    low, high = np.quantile(found, [0.05, 0.95])
    # Different random draws: the quantiles of 20,000 resamples have errors of some 2 % of the standard error.
    assert ours.low == pytest.approx(values.mean() - high * stats.sem(values), abs=0.08 * stats.sem(values))
    assert ours.high == pytest.approx(values.mean() - low * stats.sem(values), abs=0.08 * stats.sem(values))
    assert ours.method == "bootstrap-t"
    assert ours.high - ours.value > ours.value - ours.low  # a long tail above


def test_values_of_which_a_resample_can_be_all_alike_get_percentiles():
    estimate = bootstrap([0.0] * 9 + [0.5], seed=0)
    assert estimate.method == "percentile bootstrap"


def test_perplexity_is_exp_of_the_mean_with_its_delta_method_error():
    losses = np.random.default_rng(0).normal(3.0, 0.5, size=400)
    estimate = bootstrap(losses, transform=np.exp, higher_is_better=False, seed=0)
    assert estimate.value == pytest.approx(math.exp(losses.mean()))
    # Delta method: the error of exp(m) is exp(m) times the error of m.
    assert estimate.standard_error == pytest.approx(estimate.value * losses.std() / 20, rel=0.06)
    assert not estimate.higher_is_better
    plain = bootstrap(losses, seed=0)  # quantiles commute with a monotone function
    assert estimate.low == pytest.approx(math.exp(plain.low), rel=1e-3)


def test_clusters_are_drawn_whole():
    # Clusters (0, 0, 0) and (1): the four equally likely draws have means 0, 1/4, 1/4, 1.
    estimate = bootstrap([0, 0, 0, 1], clusters=["a", "a", "a", "b"], seed=0, resamples=40_000)
    assert estimate.value == 0.25
    assert estimate.n == 2
    assert estimate.standard_error == pytest.approx(0.375, rel=0.01)
    assert (estimate.low, estimate.high) == (0.0, 1.0)
    assert estimate.method == "percentile bootstrap over clusters"


def test_clustered_mean_agrees_with_the_same_statistic_without_the_short_cut():
    rng = np.random.default_rng(5)
    values, clusters = rng.normal(size=60), rng.integers(0, 12, size=60)
    fast = bootstrap(values, clusters=clusters, seed=2)
    slow = bootstrap(values, lambda v, axis: np.mean(v, axis=axis), clusters=clusters, seed=2)
    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high))
    assert fast.standard_error == pytest.approx(slow.standard_error)


def test_one_cluster_per_item_is_the_percentile_interval_of_the_items():
    values = np.random.default_rng(5).normal(size=50)
    plain = bootstrap(values, lambda v, axis: np.mean(v, axis=axis), seed=1)
    clustered = bootstrap(values, seed=1, clusters=np.arange(50))
    assert (clustered.low, clustered.high) == pytest.approx((plain.low, plain.high), abs=1e-9)
    assert clustered.confidence == 0.95


def test_same_seed_same_interval_and_other_seed_another():
    values = np.random.default_rng(0).normal(size=30)
    assert bootstrap(values, seed=7) == bootstrap(values, seed=7)
    assert bootstrap(values, seed=7).low != bootstrap(values, seed=8).low


def test_memory_bound_does_not_change_the_numbers(monkeypatch):
    from workbench.statistics import _bootstrap

    values = np.random.default_rng(0).normal(size=100)
    whole = bootstrap(values, seed=0)
    monkeypatch.setattr(_bootstrap, "_BATCH_VALUES", 700)
    assert bootstrap(values, seed=0) == whole


def test_equal_values_have_no_spread():
    estimate = bootstrap([1.0] * 20, seed=0)
    assert estimate.value == 1.0
    assert np.isnan([estimate.standard_error, estimate.low, estimate.high]).all()
    assert str(estimate) == "1.0000, interval undefined (the values have no spread)"


def test_a_single_value_has_no_interval():
    estimate = bootstrap([4.0], seed=0)
    assert estimate.value == 4.0
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.standard_error)


def test_an_overflowing_perplexity_is_infinite_without_a_warning():
    estimate = bootstrap([800.0, 900.0, 1000.0], transform=np.exp, seed=0)
    assert estimate.value == math.inf
    assert estimate.standard_error == math.inf


def test_nan_is_refused_with_its_position():
    with pytest.raises(NumericsError, match=r"2 of 4 values are not finite \(the first at position 1: nan\)"):
        bootstrap([0.0, math.nan, 1.0, math.inf], seed=0)


def test_no_values_are_refused():
    with pytest.raises(NumericsError, match=r"shape \(0,\)"):
        bootstrap([], seed=0)


def test_clusters_of_another_length_are_refused():
    with pytest.raises(NumericsError, match="each of the 3 values"):
        bootstrap([1, 2, 3], clusters=[0, 1], seed=0)


def test_interval_covers_the_true_mean_about_as_often_as_it_says():
    # 90 % intervals of 400 samples of 50: the percentile interval is known to be slightly short,
    # and 400 trials have a standard error of 1.5 points.
    rng = np.random.default_rng(11)
    estimates = [
        bootstrap(rng.normal(2.0, 1.0, 50), seed=k, resamples=500, confidence=0.9) for k in range(400)
    ]
    covered = np.mean([e.low <= 2.0 <= e.high for e in estimates])
    assert 0.85 <= covered <= 0.94
