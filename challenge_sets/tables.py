"""The results of a stored check as tables: what the command line prints, for notebooks and pages."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from challenge_sets.suites.tests import REWRITING
from workbench.runs import Run, reads_runs

__all__ = ["failing", "groups_table", "rules_table", "suite_table"]


@reads_runs
def suite_table(run: Run) -> pd.DataFrame:
    """A row a test of a suite.

    Columns: ``group`` (the name of its results), ``suite``, ``capability``, ``test``, ``kind``, ``failure_rate``
    with ``low`` and ``high`` (NaN where no case applied), ``applied`` (cases), ``not_applied`` (cases asked that the
    test does not judge), ``reason`` (why none applied), ``budget``, ``description``.
    Empty for a run of anything but suites.
    """
    rows = []
    for group, test in run.notes.get("tests", {}).items():
        rate = run.results.get(group, {}).get("failure_rate")
        numbers: dict[str, Any] = {
            "failure_rate": None,
            "low": None,
            "high": None,
            "applied": 0,
            "undefined": "",
        }
        if rate is not None:
            numbers = {"failure_rate": rate.value, "low": rate.low, "high": rate.high, "applied": rate.n}
            numbers["undefined"] = rate.undefined or ""
        rows.append(
            {
                "group": group,
                **{key: test[key] for key in _NAMES},
                **numbers,
                **_rest(test, numbers["applied"]),
            }
        )
    columns = [
        "group",
        *_NAMES,
        "failure_rate",
        "low",
        "high",
        "applied",
        "not_applied",
        "reason",
        "budget",
        "description",
        "undefined",
    ]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"failure_rate": float, "low": float, "high": float, "budget": float})


_NAMES = ("suite", "capability", "test", "kind")


@reads_runs
def rules_table(run: Run) -> pd.DataFrame:
    """A row a rule of rewriting, those that change most labels first; empty for a run of anything else.

    Columns: ``suite``, ``rule``, ``texts`` (its coverage: texts in which it is accepted), ``flips`` (labels that it
    changes), ``flip_rate`` with ``low`` and ``high``, ``undefined`` (why a number is), ``new_flips`` (texts whose
    label no rule above changes), and an example, the one with the largest change: ``before``, ``after``, ``labels``
    (one, if it stays).
    """
    tests = suite_table(run)
    tests = tests[(tests["capability"] == REWRITING) & (tests["applied"] > 0)]
    examples = run.examples() if len(tests) else pd.DataFrame(columns=["group"])
    groups = {name: part.sort_values("margin", kind="stable") for name, part in examples.groupby("group")}
    flipped = {
        name: set(part.loc[part["correct"].eq(False), "texts"].map(_original))
        for name, part in groups.items()
    }
    rows, seen = [], set[str]()
    for test in sorted(
        tests.to_dict("records"), key=lambda one: -groups[one["group"]]["correct"].eq(False).sum()
    ):
        part = groups[test["group"]]
        before, after = (texts[-1] for texts in json.loads(part["texts"].iloc[0]))
        numbers = {
            "rule": test["test"],
            "texts": test["applied"],
            "flips": int(part["correct"].eq(False).sum()),
        }
        numbers |= {"flip_rate": test["failure_rate"], "low": test["low"], "high": test["high"]}
        numbers |= {"undefined": test["undefined"], "new_flips": len(flipped[test["group"]] - seen)}
        labels = " -> ".join(dict.fromkeys(json.loads(part["predicted"].iloc[0])))
        rows.append({"suite": test["suite"], **numbers, "before": before, "after": after, "labels": labels})
        seen |= flipped[test["group"]]
    return pd.DataFrame(rows, columns=_RULE_COLUMNS)


_RULE_COLUMNS = [
    *("suite", "rule", "texts", "flips", "flip_rate", "low", "high", "undefined", "new_flips"),
    *("before", "after", "labels"),
]


def _original(texts: str) -> str:
    return json.dumps(json.loads(texts)[0])


def _rest(test: dict[str, Any], applied: int) -> dict[str, Any]:
    return {
        "budget": test.get("budget"),
        "description": test.get("description", ""),
        "not_applied": max(test.get("asked", applied) - applied, 0),
        "reason": test.get("reason", ""),
    }


@reads_runs
def groups_table(run: Run) -> pd.DataFrame:
    """A row a group and metric: ``group``, ``metric``, ``value``, ``low``, ``high``, ``n``, ``undefined`` (why a number
    is), and published numbers.

    Published numbers (people's agreement, other models) have a column each, NaN where there is none.
    ``failure_rate`` is left out: it is in :func:`suite_table`.
    """
    published: dict[str, dict[str, float]] = run.notes.get("published", {})
    rows = [
        {
            "group": group,
            "metric": metric,
            "value": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "n": estimate.n,
            "undefined": estimate.undefined or "",
            **{source: numbers.get(group) for source, numbers in published.items()},
        }
        for group, metrics in run.results.items()
        for metric, estimate in metrics.items()
        if metric != "failure_rate"
    ]
    frame = pd.DataFrame(
        rows, columns=["group", "metric", "value", "low", "high", "n", "undefined", *published]
    )
    return frame.astype(dict.fromkeys(published, float))


@reads_runs
def failing(run: Run, count: int | None = None) -> pd.DataFrame:
    """The failing rows of a check, worst first, at most ``count``; empty where rows are not judged one by one."""
    rows = run.examples()
    if not {"correct", "margin"} <= set(rows.columns):
        return rows.head(0)
    worst = rows[rows["correct"].eq(False)].sort_values("margin", kind="stable")
    return worst if count is None else worst.head(count)
