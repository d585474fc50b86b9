"""The report: its verdict, and its plain forms."""

from __future__ import annotations

import json

import pytest

from workbench.evaluate.doctor import Check, Report, Status


def report(*statuses: str, value: float | None = 0.5) -> Report:
    return Report(tuple(Check(f"check {i}", Status(s), value, 1.0, "seen") for i, s in enumerate(statuses)))


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (["pass", "skip"], "pass"),
        (["pass", "warn", "skip"], "warn"),
        (["warn", "fail", "pass"], "fail"),
        (["skip"], "pass"),
    ],
)
def test_verdict_is_the_worst_status(statuses: list[str], verdict: str) -> None:
    assert report(*statuses).verdict == verdict


def test_to_dict() -> None:
    expected = {"name": "check 0", "status": "pass", "value": 0.5, "tolerance": 1.0, "detail": "seen"}
    assert report("pass").to_dict() == {"verdict": "pass", "checks": [expected]}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_become_null(value: float) -> None:
    plain = json.loads(json.dumps(report("fail", value=value).to_dict(), allow_nan=False))
    assert plain["checks"][0]["value"] is None


def test_to_frame() -> None:
    frame = report("pass", "fail").to_frame()
    assert list(frame.columns) == ["name", "status", "value", "tolerance", "detail"]
    assert list(frame.status) == ["pass", "fail"]
