from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tests.unit.evaluate.stored_runs import store
from workbench.errors import DataError, NumericsError, RunError
from workbench.evaluate.calibration import calibration, calibration_of


def test_by_hand():
    # Confidences 0.9 (right), 0.9 (wrong), 0.6 (right), 0.6 (right): bins 0.9 and 0.6, accuracies 0.5 and 1.
    found = calibration_of([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.6, 0.4]], [0, 1, 1, 0])
    assert [(b.confidence, b.accuracy.value) for b in found.bins] == [
        (pytest.approx(0.6), 1.0),
        (pytest.approx(0.9), 0.5),
    ]
    # Each half of the items is 0.4 off.
    assert found.expected_error.value == pytest.approx(0.4)
    # Squared distances 2 * 0.01, 2 * 0.81, 2 * 0.16, 2 * 0.16.
    assert found.brier.value == pytest.approx((0.02 + 1.62 + 0.32 + 0.32) / 4)
    assert (found.accuracy, found.confidence) == (0.75, pytest.approx(0.75))


def test_brier_of_two_classes_is_twice_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    p, gold = rng.random(100), rng.integers(0, 2, 100)
    found = calibration_of(np.stack([1 - p, p], 1).tolist(), gold.tolist())
    assert found.brier.value == pytest.approx(2 * metrics.brier_score_loss(gold, p))


def test_a_calibrated_model_has_little_error_and_an_overconfident_one_what_it_is_off_by():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.5, 1, 4000)
    gold = (rng.random(4000) > p).astype(int)  # class 0 with probability p
    calm = calibration_of(np.stack([p, 1 - p], 1).tolist(), gold.tolist())
    assert calm.expected_error.value < 0.03
    sure = np.full(4000, 0.95)
    found = calibration_of(np.stack([sure, 1 - sure], 1).tolist(), gold.tolist())
    assert found.expected_error.value == pytest.approx(0.95 - (gold == 0).mean())


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
