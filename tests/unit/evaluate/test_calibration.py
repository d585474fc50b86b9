from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import softmax

from tests.unit.evaluate.stored_runs import store
from workbench.errors import DataError, NumericsError, RunError
from workbench.evaluate.calibration import calibration, calibration_of
from workbench.evaluate.temperature import scaled_by_halves


def test_by_hand():
    # Confidences 0.9 (right), 0.9 (wrong), 0.6 (right), 0.6 (right): bins 0.9 and 0.6, accuracies 0.5 and 1.
    found = calibration_of([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.6, 0.4]], [0, 1, 1, 0])
    assert [(b.confidence, b.accuracy.value) for b in found.bins] == [
        (pytest.approx(0.6), 1.0),
        (pytest.approx(0.9), 0.5),
    ]
    # Each half of the items is 0.4 off.
    assert found.expected_error.value == pytest.approx(0.4)
    # Each bin is 0.16 off, squared; chance adds 0.25 in the one, 0 in the other: (0.16 - 0.25 + 0.16) / 2.
    assert found.debiased_error.value == pytest.approx(math.sqrt(0.035))
    # Squared distances 2 * 0.01, 2 * 0.81, 2 * 0.16, 2 * 0.16.
    assert found.brier.value == pytest.approx((0.02 + 1.62 + 0.32 + 0.32) / 4)
    assert (found.accuracy, found.confidence) == (0.75, pytest.approx(0.75))


def test_brier_of_two_classes_is_twice_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    p, gold = rng.random(100), rng.integers(0, 2, 100)
    found = calibration_of(np.stack([1 - p, p], 1).tolist(), gold.tolist())
    assert found.brier.value == pytest.approx(2 * metrics.brier_score_loss(gold, p))


def calibrated(rng, n):
    """Distributions over two classes, and gold classes drawn from them."""
    p = rng.uniform(0.5, 1, n)
    return np.stack([p, 1 - p], 1), (rng.random(n) > p).astype(int)


def too_sure(n, factor, seed=4):
    """Distributions over 3 classes from which the gold class is drawn, and logits ``factor`` times theirs."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, 3))
    gold = (logits + rng.gumbel(size=(n, 3))).argmax(1)  # softmax(logits) is the chance of each class
    return softmax(factor * logits, axis=1), gold


@pytest.mark.parametrize("factor", [2.5, 1.0, 0.5])
def test_the_temperature_is_the_planted_one(factor):
    probabilities, gold = too_sure(4000, factor)
    found = calibration_of(probabilities.tolist(), gold.tolist())
    assert found.scaled is not None
    assert found.scaled.temperatures == pytest.approx((factor, factor), rel=0.1)
    # with the true temperature what is left is chance, of at most some 0.02 with 4,000 items
    assert found.scaled.expected_error < 0.025
    if factor != 1.0:
        assert found.expected_error.value > 0.08
        assert found.scaled.loss < found.scaled.loss_before


def test_each_half_is_scaled_by_the_least_loss_of_the_other():
    probabilities, gold = too_sure(60, 2.0)
    (own, other), before, after = scaled_by_halves(probabilities.tolist(), gold.tolist(), seed=0)
    first = np.isin(np.arange(60), np.random.default_rng(0).permutation(60)[:30])
    grid = np.exp(np.linspace(-2, 3, 4001))

    def best(rows):
        losses = [
            -np.log(softmax(np.log(probabilities[rows]) / t, axis=1))[np.arange(30), gold[rows]].mean()
            for t in grid
        ]
        return grid[int(np.argmin(losses))]

    assert (own, other) == pytest.approx((best(first), best(~first)), rel=2e-3)
    expected = softmax(np.log(probabilities[first]) / other, axis=1)
    np.testing.assert_allclose(np.exp(after[first]), expected, atol=1e-9)
    np.testing.assert_allclose(np.exp(before), probabilities, atol=1e-9)


def test_temperatures_of_unequal_choices_of_clusters_and_of_one_item():
    rows, gold = [[0.7, 0.3], [0.2, 0.5, 0.3], [1.0, 0.0], [0.1, 0.9]], [0, 1, 1, 0]
    found = calibration_of(rows, gold)
    assert found.scaled is not None
    assert np.isfinite([found.scaled.expected_error, found.scaled.loss]).all()
    assert calibration_of(rows[:1], gold[:1]).scaled is None
    assert calibration_of(rows, gold, clusters=np.array(["a"] * 4)).scaled is None


def test_what_a_calibrated_model_has_by_chance():
    # The mean of |N(0, v/n)| is the root of 2 v / (pi n), in each of 5 bins of some 800 items with v = p (1 - p).
    rng = np.random.default_rng(1)
    probabilities, gold = calibrated(rng, 4000)
    deviations = [np.sqrt(m * (1 - m)) for m in (0.55, 0.65, 0.75, 0.85, 0.95)]
    found = calibration_of(probabilities.tolist(), gold.tolist())
    assert found.by_chance[0] == pytest.approx(np.sqrt(2 / (np.pi * 800)) * np.mean(deviations), rel=0.05)


def test_the_interval_of_a_calibrated_model_holds_0_and_its_error_seldom_passes_chance():
    rng = np.random.default_rng(2)
    found = [calibration_of(p.tolist(), g.tolist()) for p, g in (calibrated(rng, 300) for _ in range(100))]
    assert np.mean([one.debiased_error.low == 0 for one in found]) >= 0.93
    # 5 of 100, with a standard deviation of 2.2
    assert np.mean([one.expected_error.value > one.by_chance[1] for one in found]) <= 0.12


def test_an_overconfident_model_has_what_it_is_off_by():
    rng = np.random.default_rng(1)
    _, gold = calibrated(rng, 4000)
    sure = np.full(4000, 0.95)
    found = calibration_of(np.stack([sure, 1 - sure], 1).tolist(), gold.tolist())
    off = 0.95 - (gold == 0).mean()
    assert found.expected_error.value == pytest.approx(off)
    assert found.expected_error.value > found.by_chance[1]
    assert found.debiased_error.low < off < found.debiased_error.high


@pytest.mark.parametrize("form", [list, json.dumps])
def test_of_a_stored_run_by_a_softmax_of_its_scores(tmp_path, form):
    rows = [
        {"id": "a", "correct": True, "gold": 0, "scores": form([math.log(3.0), 0.0])},
        {"id": "b", "correct": False, "gold": 0, "scores": form([0.0, 0.0 + math.log(3.0)])},
    ]
    found = calibration(store(tmp_path, "m", rows), "toy")
    assert found.confidence == pytest.approx(0.75)
    assert found.expected_error.value == pytest.approx(0.25)
    assert found.to_statistic().labels["confidence"] == ("0.70 to 0.80",)


def test_bad_input_is_named(tmp_path):
    with pytest.raises(DataError, match="got 1 for 2"):
        calibration_of([[1.0], [1.0]], [0])
    with pytest.raises(NumericsError, match="item 1 has probabilities that are NaN"):
        calibration_of([[0.5, 0.5], [math.nan, 0.5]], [0, 0])
    with pytest.raises(DataError, match="gold class 2 is not among its 2"):
        calibration_of([[0.5, 0.5]], [2])
    with pytest.raises(RunError, match="stores no scores of all choices"):
        calibration(store(tmp_path, "m", [{"id": "a", "correct": True}]), "toy")
