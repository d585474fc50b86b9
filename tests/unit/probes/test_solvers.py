"""The batched solvers against scikit-learn, on the same objective."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, Ridge

from probes._fit import Fitter, Labels, linear, ridge
from probes.estimators import LinearProbe
from probes.estimators.fitting import train_classifier
from probes.settings import ProbeSettings
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


def classes_of_gaussians(classes: int, overlap: float) -> tuple[np.ndarray, np.ndarray]:
    """Standardised rows (400, 100) and classes that a hyperplane parts, or nearly."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(400, 100))
    scores = 3 * x @ draw.normal(size=(100, classes)) + overlap * draw.gumbel(size=(400, classes))
    return (x - x.mean(0)) / x.std(0), scores.argmax(1)


@pytest.mark.parametrize("strength", [0.01, 1.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_probes_c_is_that_of_scikit_learn(classes: int, strength: float) -> None:
    x, y = classes_of_gaussians(classes, 6.0)
    probe = LinearProbe(C=strength, tolerance=1e-6).fit(x, y)
    reference = LogisticRegression(C=strength, tol=1e-9, max_iter=5000).fit(x, y)
    # of two classes scikit-learn keeps the difference of the rows
    found = probe.coef_[1:] - probe.coef_[:1] if classes == 2 else probe.coef_
    np.testing.assert_allclose(found, reference.coef_, atol=2e-4)
    np.testing.assert_allclose(probe.predict_proba(x), reference.predict_proba(x), atol=1e-4)


def least_loss(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, shift: np.ndarray, strength: float
) -> float:
    """The objective of ``LogisticRegression(C=strength)`` with a row of weights for each class."""
    log_p = log_softmax(x @ weights.T + shift, axis=1)[np.arange(len(y)), y]
    rows = weights[1] - weights[0] if len(weights) == 2 else weights
    return float(np.square(rows).sum() / (2 * strength) - log_p.sum())


@pytest.mark.parametrize("overlap", [0.0, 6.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_converged_means_near_the_least_loss(classes: int, overlap: float) -> None:
    # separable, C = 1000: the gradient is below 1e-4 where the loss is still a fifth above its least
    x, y = classes_of_gaussians(classes, overlap)
    reference = LogisticRegression(C=1000, tol=1e-9, max_iter=20_000, solver="newton-cg").fit(x, y)
    rows, shift = reference.coef_, reference.intercept_
    if classes == 2:
        rows, shift = np.concatenate([-rows, rows]) / 2, np.concatenate([-shift, shift]) / 2
    least = least_loss(x, y, rows, shift, 1000)
    problem = Problems(y[None], np.ones((1, len(y))), np.array([1 / 1000]), classes)
    for rounds in (10, 20, 300):
        found = solve_logistic(Rows.of(x), problem, max_rounds=rounds)
        weights = found.parameters[0].numpy().astype(float)
        above = least_loss(x, y, weights[:, :-1], weights[:, -1], 1000) / least - 1
        assert bool(found.converged[0]) is (rounds == 300)
        assert above < 0.005 if rounds == 300 else above > 0.005


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


@pytest.mark.parametrize("fitter", [linear, ridge])
def test_the_chosen_strength_is_refitted_to_all_rows(fitter: Fitter) -> None:
    x, y = classes_of_gaussians(4, 6.0)
    held = np.arange(400) % 10 == 0
    labels = Labels(y[None], ~held[None], held[None], 4, (0,))
    fresh = np.random.default_rng(1).normal(size=(2000, 100)).astype(np.float32)
    train = Rows.of(x)
    settings = ProbeSettings(task="pos", strengths=(0.001, 0.1))
    found = fitter(train, Rows.of(fresh, train.scaling), labels, settings)
    if fitter is linear:
        fits = [LogisticRegression(C=c, tol=1e-8, max_iter=5000) for c in (0.001, 0.1)]
        right = [fit.fit(x[~held], y[~held]).score(x[held], y[held]) for fit in fits]
        assert found.strengths == [(0.001, 0.1)[int(np.argmax(right))]]
        expected = LogisticRegression(C=found.strengths[0], tol=1e-8, max_iter=5000).fit(x, y).predict(fresh)
    else:
        expected = Ridge(alpha=1 / found.strengths[0]).fit(x, np.eye(4)[y]).predict(fresh).argmax(1)
    assert np.mean(found.classes[0] == expected) > 0.998


def test_a_network_is_trained_on_all_rows_for_the_epochs_that_a_tenth_chose() -> None:
    seen: list[int] = []

    class Recorded(torch.nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            seen.extend([len(rows)] * self.training)
            return super().forward(rows)

    x, y = classes_of_gaussians(2, 6.0)
    inputs, options = torch.from_numpy(x.astype(np.float32)), {"learning_rate": 0.01, "weight_decay": 0.01}
    done = train_classifier(Recorded(100, 2), inputs, y, epochs=12, seed=0, **options)
    # an epoch of 400 rows is batches of 256 and 144; of nine tenths, 256 and 104
    assert seen[-2 * done :] == [256, 144] * done
    assert seen[: -2 * done] == [256, 104] * min(12, done + 4)
