from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from workbench.errors import NumericsError
from workbench.statistics import (
    f1_measure,
    macro_f1_measure,
    matthews_measure,
    mcnemar,
    minimum_detectable_difference,
    paired_difference,
    paired_permutation,
    pearson_measure,
    spearman_measure,
)


def discordant(first_only: int, second_only: int, same: int = 10) -> tuple[list[int], list[int]]:
    first = [1] * first_only + [0] * second_only + [1] * same
    second = [0] * first_only + [1] * second_only + [1] * same
    return first, second


def test_exact_mcnemar_by_hand():
    # 1 against 5: two-sided binomial p = 2 (1 + 6) / 2^6.
    result = mcnemar(*discordant(1, 5))
    assert result.exact
    assert (result.both, result.first_only, result.second_only, result.neither) == (10, 1, 5, 0)
    assert result.p_value == pytest.approx(14 / 64)
    assert result.effect_size == pytest.approx(1 / 6 - 1 / 2)


@pytest.mark.parametrize(("first_only", "second_only"), [(3, 12), (20, 35), (60, 58)])
def test_mcnemar_equals_statsmodels(first_only, second_only):
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    ours = mcnemar(*discordant(first_only, second_only))
    theirs = contingency.mcnemar([[10, first_only], [second_only, 0]], exact=ours.exact, correction=False)
    assert ours.exact == (first_only + second_only < 25)
    assert ours.p_value == pytest.approx(theirs.pvalue)


def test_mcnemar_of_equal_answers_is_one_and_of_other_values_an_error():
    assert mcnemar([1, 0, 1], [1, 0, 1]).p_value == 1.0
    with pytest.raises(NumericsError, match="right \\(1\\) or wrong"):
        mcnemar([0.5, 1], [0, 1])


def test_mcnemars_false_positives_are_at_its_level():
    # 400 items, both systems right with probability 0.7 independently: about 168 discordant pairs. Over 2,500
    # simulated comparisons the share of p < 0.05 has a standard error of 0.0044: 0.05 +- 3 of them.
    rng = np.random.default_rng(0)
    tests = [mcnemar(*(rng.random((2, 400)) < 0.7).astype(int)) for _ in range(2500)]
    assert np.mean([t.p_value < 0.05 for t in tests]) == pytest.approx(0.05, abs=0.0131)


def test_exact_mcnemar_never_exceeds_its_level():
    # 12 discordant pairs: p < 0.05 needs 0, 1, 2 or 10, 11, 12, which has probability 158 / 4096 = 0.0386.
    rng = np.random.default_rng(1)
    wins = rng.binomial(12, 0.5, size=4000)
    found = [mcnemar(*discordant(w, 12 - w)).p_value < 0.05 for w in range(13)]
    assert np.mean([found[w] for w in wins]) == pytest.approx(158 / 4096, abs=0.0092)


def test_permutation_p_value_of_four_items_is_that_of_all_sixteen_sign_patterns():
    # Differences 1, 2, 3, 4: |sum| = 10 only where all signs agree, 2 of 16.
    p = paired_permutation([1, 2, 3, 4], [0, 0, 0, 0], seed=0, permutations=40_000)
    assert p == pytest.approx(2 / 16, abs=0.006)


def test_permutation_of_clusters_exchanges_them_whole():
    # Two clusters of two: |sum| = 10 in 2 of 4 patterns.
    p = paired_permutation([1, 2, 3, 4], [0] * 4, seed=0, permutations=40_000, clusters=["a", "a", "b", "b"])
    assert p == pytest.approx(2 / 4, abs=0.01)


def test_permutation_agrees_with_the_paired_t_test_on_normal_differences():
    rng = np.random.default_rng(2)
    first, second = rng.normal(0.2, 1, 80), rng.normal(0, 1, 80)
    p = paired_permutation(first, second, seed=0, permutations=20_000)
    assert p == pytest.approx(stats.ttest_rel(first, second).pvalue, abs=0.02)


def test_paired_difference_has_the_error_of_the_differences():
    rng = np.random.default_rng(3)
    base = rng.normal(size=400)
    first, second = base + rng.normal(0.3, 0.1, 400), base
    found = paired_difference(first, second, seed=0)
    assert found.value == pytest.approx((first - second).mean())
    # The spread that both share is gone: 0.1 / sqrt(400).
    assert found.standard_error == pytest.approx((first - second).std(ddof=1) / 20, rel=0.06)


def test_difference_of_a_corpus_metric_draws_items_for_both():
    rng = np.random.default_rng(4)
    gold = rng.integers(0, 2, 300)
    good = np.where(rng.random(300) < 0.9, gold, 1 - gold)
    poor = np.where(rng.random(300) < 0.6, gold, 1 - gold)
    a, b = np.stack([good, gold], 1), np.stack([poor, gold], 1)
    found = paired_difference(a, b, matthews_measure, seed=0, resamples=500)
    assert found.value == pytest.approx(float(matthews_measure(a) - matthews_measure(b)))
    assert 0 < found.low < found.value < found.high
    assert paired_permutation(a, b, matthews_measure, seed=0, permutations=500) == pytest.approx(1 / 501)


def test_measures_equal_scikit_learn_and_scipy():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(5)
    gold, predicted = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
    sample = np.stack([predicted, gold], 1)
    assert matthews_measure(sample) == pytest.approx(metrics.matthews_corrcoef(gold, predicted))
    assert macro_f1_measure(sample) == pytest.approx(metrics.f1_score(gold, predicted, average="macro"))
    two = np.stack([predicted > 1, gold > 1], 1).astype(int)
    assert f1_measure(two) == pytest.approx(metrics.f1_score(gold > 1, predicted > 1))
    x, y = rng.normal(size=50), rng.normal(size=50).round(1)
    assert pearson_measure(np.stack([x, y], 1)) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert spearman_measure(np.stack([x, y], 1)) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_minimum_detectable_difference_by_the_normal_quantiles():
    # (1.960 + 0.842) times the error.
    assert minimum_detectable_difference(0.01) == pytest.approx(0.02801585, abs=1e-7)


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five():
    rng = np.random.default_rng(6)
    gap = minimum_detectable_difference(1 / np.sqrt(200))
    found = stats.ttest_1samp(rng.normal(gap, 1, (2000, 200)), 0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.03)


def test_bad_pairs_say_what_differs():
    with pytest.raises(NumericsError, match="same items of both systems"):
        mcnemar([1, 0], [1])
    with pytest.raises(NumericsError, match="second system has 1 scores that are not finite, from item 1"):
        paired_permutation([1.0, 2.0], [0.0, float("nan")], seed=0)
    with pytest.raises(NumericsError, match="clusters must label each of the 2 items"):
        paired_permutation([1.0, 2.0], [0.0, 1.0], seed=0, clusters=["a"])
