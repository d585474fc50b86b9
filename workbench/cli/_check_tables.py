"""Tables of ``workbench check``: groups with intervals and published numbers, and failing examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.cli._tables import table
from workbench.estimate import Estimate

__all__ = ["failures_table", "groups_table", "tests_table"]

_TEXT_WIDTH = 60


def groups_table(
    results: Mapping[str, Mapping[str, Estimate]], published: Mapping[str, Mapping[str, float]]
) -> str:
    """One row per group and metric: value, interval, cases, and what was published for it."""
    rows = [
        (
            group,
            metric,
            f"{e.value:.4f}",
            f"{e.low:.4f}",
            f"{e.high:.4f}",
            str(e.n),
            *(_number(numbers.get(group)) for numbers in published.values()),
        )
        for group, metrics in results.items()
        for metric, e in metrics.items()
    ]
    return table(("group", "metric", "value", "95 % low", "95 % high", "n", *published), rows)


def tests_table(results: Mapping[str, Mapping[str, Estimate]], tests: Mapping[str, Mapping[str, Any]]) -> str:
    """Capability, test and kind with failure rate, interval, and how many of the cases applied."""
    rows = []
    for group, test in tests.items():
        rate = results.get(group, {}).get("failure_rate")
        numbers = ("-",) * 3 if rate is None else (f"{rate.value:.3f}", f"{rate.low:.3f}", f"{rate.high:.3f}")
        applied = 0 if rate is None else rate.n
        rows.append((test["suite"], test["capability"], test["test"], test["kind"], *numbers, str(applied)))
    header = ("suite", "capability", "test", "kind", "failure rate", "95 % low", "95 % high", "applied")
    skip = 1 if len({row[0] for row in rows}) == 1 else 0  # one suite need not be named on each line
    return table(header[skip:], [row[skip:] for row in rows])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def failures_table(examples: Any, count: int = 5) -> str:
    """The worst failing examples of a run; empty where its rows are not judged one by one."""
    if "correct" not in examples or "margin" not in examples:
        return ""
    failing = examples[examples["correct"].eq(False)].sort_values("margin", kind="stable").head(count)
    if failing.empty:
        return ""
    rows = [
        (row["id"], f"{row['margin']:.2f}", _short(row["good"]), _short(row["bad"]))
        for row in failing.to_dict("records")
    ]
    return table(("failing", "margin", "should win", "wins"), rows)


def _short(text: str) -> str:
    flat = " ".join(str(text).split())
    return flat if len(flat) <= _TEXT_WIDTH else flat[: _TEXT_WIDTH - 1] + "…"
