from __future__ import annotations

import json
import math

from workbench.statistics import Estimate


def test_estimate_survives_json():
    estimate = Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=20, higher_is_better=False)
    assert Estimate.from_dict(json.loads(json.dumps(estimate.to_dict()))) == estimate


def test_what_is_not_finite_becomes_null_and_then_nan():
    stored = Estimate(value=math.inf, standard_error=math.nan, low=1.0, high=math.inf, n=1).to_dict()
    assert json.dumps(stored, allow_nan=False).count("null") == 3
    assert math.isnan(Estimate.from_dict(stored).standard_error)
