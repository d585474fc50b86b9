"""Text tables of ``workbench check``: groups with intervals and published numbers, tests, failing examples."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from workbench.cli._tables import table
from workbench.estimate import printed

__all__ = ["failures_text", "groups_text", "reasons_text", "tests_text"]

_TEXT_WIDTH = 60
_SHOWN = 5


def groups_text(groups: Any) -> str:
    """:func:`challenge_sets.tables.groups_table` as text; empty without rows."""
    if groups.empty:
        return ""
    published = list(groups.columns[7:])
    rows = [
        (
            row["group"],
            row["metric"],
            *printed(row["value"], row["low"], row["high"], row["undefined"]),
            str(row["n"]),
            *(_number(row[name], 4) for name in published),
        )
        for row in groups.to_dict("records")
    ]
    return table(("group", "metric", "value", "95 % low", "95 % high", "n", *published), rows)


def tests_text(tests: Any) -> str:
    """:func:`challenge_sets.tables.suite_table` as text: rates, intervals, and how many cases applied."""
    rows = [
        (
            *(row[name] for name in ("suite", "capability", "test", "kind")),
            *_rate(row),
            str(row["applied"]),
            str(row["not_applied"]),
        )
        for row in tests.to_dict("records")
    ]
    rates = ("failure rate", "95 % low", "95 % high", "applied", "not applied")
    header = ("suite", "capability", "test", "kind", *rates)
    skip = 1 if tests["suite"].nunique() == 1 else 0  # one suite need not be named on each line
    return table(header[skip:], [row[skip:] for row in rows])


def reasons_text(tests: Any) -> str:
    """Why no case of a test was judged, one line a reason; empty if every test has a rate."""
    missing = tests[(tests["applied"] == 0) & (tests["reason"] != "")]
    return "\n".join(
        f"without a rate: {', '.join(part['test'])}: {reason}"
        for reason, part in missing.groupby("reason", sort=False)
    )


def _rate(row: dict[str, Any]) -> tuple[str, ...]:
    if not row["applied"]:
        return "-", "-", "-"
    return printed(row["failure_rate"], row["low"], row["high"], row["undefined"], 3)


def _number(value: float, digits: int) -> str:
    return "-" if value != value else f"{value:.{digits}f}"  # NaN: nothing published


def failures_text(failing: Any) -> str:
    """The worst of :func:`challenge_sets.tables.failing` as text; empty without rows that have two texts."""
    if failing.empty or not {"good", "bad"} <= set(failing.columns):
        return ""
    rows = [
        (row["id"], f"{row['margin']:.2f}", *_members(row)) for row in failing.head(_SHOWN).to_dict("records")
    ]
    return table(("failing", "margin", "should win", "wins"), rows)


def _members(row: dict[str, Any]) -> list[str]:
    """The two texts; for a classifier's wrong label the text and the label that it got."""
    good, bad = str(row["good"]), str(row["bad"])
    if good == bad:
        return [_cut(" ".join(good.split())), f"predicted {row.get('predicted', '')}".strip()]
    return _short(good, bad)


def _short(good: str, bad: str) -> list[str]:
    """Both on one line each; what is too long begins shortly before the first difference."""
    flat = [" ".join(text.split()) for text in (good, bad)]
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*flat, strict=False)))
    # Room for what differs, and for as much in front of it as fits.
    needed = min(max(map(len, flat)) - common, _TEXT_WIDTH // 2)
    start = max(common + needed + 1 - _TEXT_WIDTH, 0)
    return [_cut(("…" if start else "") + text[start:]) for text in flat]


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"
