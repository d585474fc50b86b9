"""A mean's interval: Wilson's for right and wrong, and never of width zero for few items."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.errors import NumericsError
from workbench.statistics import bootstrap, clustered_wilson, mean_estimate, wilson


def test_right_and_wrong_have_wilsons_interval() -> None:
    assert mean_estimate([0.0, 1.0, 1.0, 0.0], seed=0) == wilson(2, 4)
    none = mean_estimate([0.0] * 60, seed=0)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1.96**2 / (60 + 1.96**2), abs=1e-4)  # Wilson's bound by hand


def test_other_numbers_are_resampled() -> None:
    assert mean_estimate([0.5, 1.0, 2.0], seed=3) == bootstrap([0.5, 1.0, 2.0], seed=3)


def test_right_and_wrong_in_clusters_have_the_interval_of_suites() -> None:
    """Wilson's at the effective sample size; ``n`` counts the clusters, as for other numbers."""
    values, clusters = [0.0, 1.0, 1.0, 0.0], ["a", "a", "b", "c"]
    expected = clustered_wilson([False, True, True, False], clusters)
    assert mean_estimate(values, seed=3, clusters=clusters) == replace(expected, n=3)
    assert expected.low > 0
    all_right, three = mean_estimate([1.0] * 4, seed=3, clusters=clusters), wilson(3, 3)
    assert (all_right.low, all_right.high, all_right.n) == (pytest.approx(three.low), 1.0, 3)


def test_one_cluster_counts_as_one_item() -> None:
    assert mean_estimate([1.0] * 4, seed=3, clusters=list("aaaa")) == wilson(1, 1)
    mixed = mean_estimate([1.0, 0.0, 1.0], seed=3, clusters=list("aaa"))
    assert mixed.value == pytest.approx(2 / 3)
    assert mixed.undefined


def test_other_numbers_in_clusters_are_resampled() -> None:
    values, clusters = [0.0, 0.5, 1.0, 0.0], ["a", "a", "b", "c"]
    assert mean_estimate(values, seed=3, clusters=clusters) == bootstrap(values, seed=3, clusters=clusters)


def test_nothing_is_an_error() -> None:
    with pytest.raises(NumericsError):
        mean_estimate([], seed=0)
