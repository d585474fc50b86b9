from __future__ import annotations

import json
import math

import pytest

from workbench.statistics import Estimate


def test_estimate_survives_json():
    estimate = Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=20, higher_is_better=False)
    assert Estimate.from_dict(json.loads(json.dumps(estimate.to_dict()))) == estimate


def test_what_is_not_finite_becomes_null_and_then_nan():
    stored = Estimate(value=math.inf, standard_error=math.nan, low=1.0, high=math.inf, n=1).to_dict()
    assert json.dumps(stored, allow_nan=False).count("null") == 3
    assert math.isnan(Estimate.from_dict(stored).standard_error)


def test_infinities_come_back():
    """A perplexity that overflows, and a context that is longer than any that was tried."""
    estimate = Estimate(value=math.inf, standard_error=math.inf, low=-math.inf, high=math.inf, n=9)
    stored = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
    assert Estimate.from_dict(stored) == estimate
    assert str(Estimate.from_dict(stored)) == "inf [-inf, inf]"
    with pytest.raises(TypeError, match="infinite names 'n'"):
        Estimate.from_dict(stored | {"infinite": ["n"]})


OLD = {
    "value": 0.0,
    "standard_error": 0.0,
    "low": 0.0,
    "high": 0.0,
    "n": 9,
    "confidence": 0.95,
    "method": "wilson",
}


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({}, "0.0000, interval undefined (the values have no spread)"),
        (
            {"standard_error": None, "low": None, "high": None},
            "0.0000, interval undefined (no reason stored)",
        ),
        ({"value": None, "standard_error": None, "low": None, "high": None}, "undefined (no reason stored)"),
        ({"low": -0.5, "high": 0.25}, "0.0000 [-0.5000, 0.2500]"),
    ],
)
def test_runs_stored_before_reasons_were_are_read(record, text):
    """An interval without width was stored for what has none; it is not shown as one any more."""
    assert str(Estimate.from_dict(OLD | record)) == text


def test_the_reason_is_stored_only_where_there_is_one():
    """Versions that know no reasons pass every key to the constructor."""
    assert set(Estimate.from_dict(OLD | {"low": -0.5, "high": 0.25}).to_dict()) == {*OLD, "higher_is_better"}
