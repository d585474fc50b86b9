"""Bradley-Terry beside other packages' logistic regressions; length control on data with a known bias."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.linear_model import LogisticRegression
from statsmodels.api import GLM, Logit, families

from workbench.errors import NumericsError
from workbench.statistics import Ties, bradley_terry, length_controlled_win_rate

TRUE = {"A": 0.8, "B": 0.1, "C": -0.9}


def drawn(
    rng: np.random.Generator, n: int, ties: float = 0.0
) -> tuple[list[str], list[str], np.ndarray[Any, Any]]:
    names = list(TRUE)
    pairs = [rng.choice(3, 2, replace=False) for _ in range(n)]
    first, second = ([names[pair[side]] for pair in pairs] for side in (0, 1))
    chance = expit([TRUE[a] - TRUE[b] for a, b in zip(first, second, strict=True)])
    score = (rng.random(n) < chance).astype(float)
    return first, second, np.where(rng.random(n) < ties, 0.5, score)


def contrasts(first: list[str], second: list[str], names: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """Without the last name, whose strength is set to zero."""
    return np.array(
        [[(a == name) - (b == name) for name in names[:-1]] for a, b in zip(first, second, strict=True)],
        float,
    )


def test_strengths_and_errors_are_those_of_a_logistic_regression() -> None:
    first, second, score = drawn(np.random.default_rng(0), 300)
    found = bradley_terry(first, second, score)
    design = contrasts(first, second, found.names)
    reference = Logit(score, design).fit(disp=0, cov_type="HC0")
    plain = LogisticRegression(C=math.inf, fit_intercept=False, tol=1e-10, max_iter=1000).fit(design, score)
    own = found.values[:-1] - found.values[-1]
    np.testing.assert_allclose(own, reference.params, atol=1e-8)
    np.testing.assert_allclose(own, plain.coef_[0], atol=1e-4)
    assert found.values.sum() == pytest.approx(0)
    to_last = np.hstack([np.eye(2), -np.ones((2, 1))])
    covariance = to_last @ found.covariance @ to_last.T
    np.testing.assert_allclose(covariance, reference.cov_params() * 300 / 299, rtol=1e-6)


def test_a_tie_counts_as_half_a_win_of_either_and_prompts_are_clusters() -> None:
    rng = np.random.default_rng(1)
    first, second, score = drawn(rng, 300, ties=0.2)
    prompts = np.repeat(np.arange(60), 5)
    found = bradley_terry(first, second, score, clusters=prompts)
    doubled = contrasts([*first, *first], [*second, *second], found.names)
    reference = GLM(
        np.concatenate([np.ones(300), np.zeros(300)]),
        doubled,
        family=families.Binomial(),
        freq_weights=np.concatenate([score, 1 - score]),
    ).fit()
    np.testing.assert_allclose(found.values[:-1] - found.values[-1], reference.params, atol=1e-7)
    clustered = Logit(np.where(score == 0.5, 1.0, score), contrasts(first, second, found.names)).fit(
        disp=0, cov_type="cluster", cov_kwds={"groups": prompts, "use_correction": False}
    )
    no_ties = bradley_terry(first, second, np.where(score == 0.5, 1.0, score), clusters=prompts)
    to_last = np.hstack([np.eye(2), -np.ones((2, 1))])
    np.testing.assert_allclose(
        to_last @ no_ties.covariance @ to_last.T, clustered.cov_params() * 60 / 59, rtol=1e-6
    )


def test_davidsons_ties_are_likeliest() -> None:
    first, second, score = drawn(np.random.default_rng(2), 400, ties=0.3)
    found = bradley_terry(first, second, score, ties="davidson")
    design = contrasts(first, second, found.names)

    def loss(parameters: np.ndarray[Any, Any]) -> float:
        gap = design @ parameters[:2]
        utilities = np.stack([gap / 2, -gap / 2, np.full(len(gap), parameters[2])], 1)
        own = np.where(score == 1, utilities[:, 0], np.where(score == 0, utilities[:, 1], utilities[:, 2]))
        return float((logsumexp(utilities, axis=1) - own).sum())

    reference = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(found.values[:-1] - found.values[-1], reference[:2], atol=1e-5)
    assert found.tie == pytest.approx(reference[2], abs=1e-5)
    assert found.ties is Ties.DAVIDSON


def test_elo_is_the_same_scale() -> None:
    found = bradley_terry(["A"] * 11, ["B"] * 11, [1] * 10 + [0])
    elo = found.elo()
    assert elo["A"].value - elo["B"].value == pytest.approx(400)  # ten wins to one
    assert elo["A"].value + elo["B"].value == pytest.approx(2000)
    assert found.win_probability("A", "B") == pytest.approx(10 / 11)
    ratio = 400 / math.log(10)
    assert elo["A"].high - elo["A"].low == pytest.approx(
        ratio * (found.estimates()["A"].high - found.estimates()["A"].low)
    )


def test_models_that_nothing_links_are_refused() -> None:
    with pytest.raises(NumericsError, match=r"no comparison links A, B and C, D; strengths"):
        bradley_terry(list("ABCD"), list("BADC"), [1, 1, 0, 1])


def test_strengths_without_a_maximum_are_undefined() -> None:
    found = bradley_terry(list("AABB"), list("BCCC"), [1, 1, 1, 0])
    assert all(math.isnan(one.value) for one in found.elo().values())
    assert found.undefined == (
        "no comparison of A with others is lost or tied, so no finite strength is likeliest"
    )
    tied = bradley_terry(list("AABB"), list("BCCC"), [1, 0.5, 1, 0])
    assert tied.undefined is None


@pytest.mark.parametrize("score", [[2.0], [float("nan")], []])
def test_scores_are_from_0_to_1(score: list[float]) -> None:
    with pytest.raises(NumericsError, match="scores from 0 to 1"):
        bradley_terry(["A"] * len(score), ["B"] * len(score), score)


def biased(rng: np.random.Generator, n: int, ability: float, bias: float) -> tuple[Any, Any]:
    """Verdicts that favour long replies, and the first model's replies are longer by half their deviation."""
    apart = rng.normal(50, 100, n)
    chance = expit(ability + bias * np.tanh(apart / apart.std(ddof=1)))
    return (rng.random(n) < chance).astype(float), apart


def test_a_known_length_bias_is_taken_out() -> None:
    score, apart = biased(np.random.default_rng(3), 20_000, 0.0, 2.0)
    rate, effect = length_controlled_win_rate(score, apart)
    assert score.mean() > 0.6  # what is longer wins
    assert rate.value == pytest.approx(0.5, abs=0.015)
    assert effect.value == pytest.approx(2.0, abs=0.1)
    assert rate.low < 0.5 < rate.high


def test_length_control_is_a_logistic_regression_at_no_difference() -> None:
    score, apart = biased(np.random.default_rng(4), 300, 0.7, 1.0)
    score[:40] = 0.5
    rate, effect = length_controlled_win_rate(score, apart)
    design = np.stack([np.ones(300), np.tanh(apart / apart.std(ddof=1))], 1)
    reference = GLM(score, design, family=families.Binomial()).fit(cov_type="HC0")
    assert rate.value == pytest.approx(expit(reference.params[0]), abs=1e-8)
    assert effect.value == pytest.approx(reference.params[1], abs=1e-7)
    assert effect.standard_error == pytest.approx(reference.bse[1] * math.sqrt(300 / 299), rel=1e-6)


def test_exchanged_sides_give_the_complement() -> None:
    score, apart = biased(np.random.default_rng(5), 100, 0.7, 1.0)
    one, there = length_controlled_win_rate(score, apart)
    other, back = length_controlled_win_rate(1 - score, -apart)
    assert (one.value + other.value, there.value) == pytest.approx((1.0, back.value))
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low))


def test_length_control_says_where_it_has_no_value() -> None:
    assert "differ equally in length" in str(length_controlled_win_rate([1, 0, 1], [5, 5, 5])[0])
    assert "one side always wins" in str(length_controlled_win_rate([1, 1, 1], [5, 3, -5])[0])
    assert "length alone tells who wins" in str(length_controlled_win_rate([1, 1, 0], [5, 3, -5])[0])
    with pytest.raises(NumericsError, match="a length difference for each"):
        length_controlled_win_rate([1, 0], [5])
