"""The batched solvers against scikit-learn, on the same objective."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from probes.solvers import Problems, Rows, solve_logistic, solve_ridge
from probes.solvers.rows import scaling_of
from workbench.errors import NumericsError


@pytest.fixture(scope="module")
def problem() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(500, 6)) @ draw.normal(size=(6, 6)) * np.exp(2 * draw.normal(size=6)) + 50
    scores = (x - x.mean(0)) / x.std(0) @ draw.normal(size=(6, 4)) + draw.gumbel(size=(500, 4))
    return x.astype(np.float32), scores.argmax(1)


@pytest.mark.parametrize("strength", [0.001, 0.1, 10.0])
def test_weights_equal_those_of_scikit_learn(problem: tuple[np.ndarray, np.ndarray], strength: float) -> None:
    x, y = problem
    rows = Rows.of(x)
    solution = solve_logistic(
        rows, Problems(y[None], np.ones((1, 500)), np.array([1 / strength]), 4), tolerance=1e-6
    )
    scaled = (x.astype(float) - x.mean(0)) / x.std(0)
    reference = LogisticRegression(C=strength, tol=1e-8, max_iter=5000).fit(scaled, y)
    np.testing.assert_allclose(solution.parameters[0, :, :-1].numpy(), reference.coef_, atol=2e-3)
    # the intercepts are free, so only their differences are determined
    found = solution.parameters[0, :, -1].numpy()
    np.testing.assert_allclose(
        found - found.mean(), reference.intercept_ - reference.intercept_.mean(), atol=2e-3
    )
    assert solution.converged.all()


def test_likelihoods_equal_those_of_scikit_learn(problem: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = problem
    rows = Rows.of(x)
    solution = solve_logistic(rows, Problems(y[None], np.ones((1, 500)), np.array([10.0]), 4), tolerance=1e-6)
    scaled = (x.astype(float) - x.mean(0)) / x.std(0)
    reference = LogisticRegression(C=0.1, tol=1e-8, max_iter=5000).fit(scaled, y)
    expected = reference.predict_log_proba(scaled)[np.arange(500), y]
    np.testing.assert_allclose(solution.log_likelihoods(rows, y[None])[0], expected, atol=2e-3)


def test_problems_do_not_disturb_each_other(problem: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = problem
    rows, draw = Rows.of(x), np.random.default_rng(1)
    targets = np.stack([y, draw.integers(4, size=500), y])
    weights = np.ones((3, 500))
    weights[2, 250:] = 0  # trained on the first half only
    penalty = np.array([1.0, 100.0, 10.0])
    together = solve_logistic(rows, Problems(targets, weights, penalty, 4), tolerance=1e-6)
    for p in range(3):
        alone = solve_logistic(
            rows, Problems(targets[p : p + 1], weights[p : p + 1], penalty[p : p + 1], 4), tolerance=1e-6
        )
        np.testing.assert_allclose(together.parameters[p], alone.parameters[0], atol=2e-3)
    scaled = (x.astype(float) - x.mean(0)) / x.std(0)
    half = LogisticRegression(C=0.1, tol=1e-8, max_iter=5000).fit(scaled[:250], y[:250])
    np.testing.assert_allclose(together.parameters[2, :, :-1].numpy(), half.coef_, atol=2e-3)


def test_ridge_equals_scikit_learn_with_weights(problem: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = problem
    weights = np.random.default_rng(2).uniform(0.1, 2.0, size=500)
    targets = np.eye(4)[y]
    solution = solve_ridge(Rows.of(x), targets, weights, [0.5, 50.0])
    scaled = (x.astype(float) - x.mean(0)) / x.std(0)
    for k, penalty in enumerate((0.5, 50.0)):
        reference = Ridge(alpha=penalty).fit(scaled, targets, sample_weight=weights)
        np.testing.assert_allclose(solution.parameters[k, :, :-1].numpy(), reference.coef_, atol=1e-4)
        np.testing.assert_allclose(solution.parameters[k, :, -1].numpy(), reference.intercept_, atol=1e-4)


def test_scaling_of_large_offsets_and_constants() -> None:
    draw = np.random.default_rng(3)
    x = np.stack([draw.normal(size=10_000) + 1e4, np.full(10_000, 7.0)], axis=1).astype(np.float32)
    scaling = scaling_of(lambda a, b: x[a:b], len(x), 2)
    reference = x.astype(np.float64)
    np.testing.assert_allclose(scaling.mean, reference.mean(0), rtol=1e-6)
    assert scaling.deviation[0] == pytest.approx(reference[:, 0].std(), rel=1e-4)
    assert scaling.deviation[1] == 1.0  # a constant stays zero instead of growing without bound


def test_nan_features_are_told() -> None:
    x = np.full((10, 2), np.nan, dtype=np.float32)
    with pytest.raises(NumericsError, match="workbench doctor"):
        solve_logistic(Rows.of(x), Problems(np.zeros((1, 10), int), np.ones((1, 10)), np.ones(1), 2))
