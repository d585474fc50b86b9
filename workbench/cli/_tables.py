"""Plain text tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from workbench.characters import display_width, neutral, printable
from workbench.estimate import Estimate, printed

if TYPE_CHECKING:
    from workbench.analysis.faithfulness_examine import Examination
    from workbench.analysis.saliency import Attribution
    from workbench.runs import Run
    from workbench.statistics import Statistic

__all__ = [
    "doctor_table",
    "examination_text",
    "failures_text",
    "groups_text",
    "measures_text",
    "reasons_text",
    "results_table",
    "rules_text",
    "scores_text",
    "table",
    "tests_text",
    "training_line",
]


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Columns padded to their widest cell; numbers to the right."""
    head = list(header)
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(display_width(row[i]) for row in [head, *cells]) for i in range(len(head))]
    right = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(head))]

    def line(row: list[str]) -> str:
        gaps = (" " * (w - display_width(c)) for c, w in zip(row, widths, strict=True))
        padded = (g + c if r else c + g for c, g, r in zip(row, gaps, right, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), "  ".join("-" * w for w in widths), *map(line, cells)])


def results_table(results: Mapping[str, Mapping[str, Estimate]]) -> str:
    """One row per task and metric: value, standard error, interval, number of items; what is undefined, and why."""
    rows = [
        (task, metric, *e.cells(), str(e.n))
        for task, metrics in results.items()
        for metric, e in metrics.items()
    ]
    return table(("task", "metric", "value", "std. error", "95 % low", "95 % high", "n"), rows)


def training_line(run: Run) -> str:
    """What a training run trained and cost, and where it is."""
    used = run.throughput
    share = used["trained_parameters"] / used["all_parameters"]
    return (
        f"{used['trained_parameters']:,} weights trained ({share:.1%}), {used['seconds']:,.0f} s, "
        f"{used['peak_memory_mib']:,.0f} MiB at most; stored in {run.path}"
    )


def doctor_table(checks: Iterable[Mapping[str, Any]]) -> str:
    """One row per numeric check: status, the value seen, the tolerance, what was compared."""
    columns = ("name", "status", "value", "tolerance", "detail")
    rows = ([_short(check[column]) for column in columns] for check in checks)
    return table(("check", *columns[1:]), rows)


def _short(value: object) -> object:
    return f"{value:.3g}" if isinstance(value, float) else value


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else neutral(str(value))


def _is_number(text: str) -> bool:
    return (
        text in {"-", "nan", "inf"}
        or text.replace(",", "").replace(".", "", 1).lstrip("-").split("e")[0].isdigit()
    )


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


_ABOUT_RULES = """rules of rewriting, those that flip most labels first; texts: those in which the rule is accepted, by
embeddings and not by people; new flips: of texts that no rule above flips"""


def rules_text(rules: Any) -> str:
    """:func:`challenge_sets.tables.rules_table` as text: each rule's flips, and the example with the largest change."""
    rows = [
        (
            row["rule"],
            str(row["texts"]),
            str(row["flips"]),
            *printed(row["flip_rate"], row["low"], row["high"], row["undefined"], 3),
            str(row["new_flips"]),
            _parting(row["before"], row["after"])[1],
            row["labels"],
        )
        for row in rules.to_dict("records")
    ]
    rates = ("flip rate", "95 % low", "95 % high", "new flips")
    lines = table(("rule", "texts", "flips", *rates, "example, rewritten", "labels"), rows)
    return f"{_ABOUT_RULES}\n\n{lines}"


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
    return _parting(good, bad)


def _parting(good: str, bad: str) -> list[str]:
    """Both on one line each; what is too long begins shortly before the first difference."""
    flat = [" ".join(text.split()) for text in (good, bad)]
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*flat, strict=False)))
    # Room for what differs, and for as much in front of it as fits.
    needed = min(max(map(len, flat)) - common, _TEXT_WIDTH // 2)
    start = max(common + needed + 1 - _TEXT_WIDTH, 0)
    return [_cut(("…" if start else "") + text[start:]) for text in flat]


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"


_ACROSS = 4  # measures in one table: a line of a terminal


def scores_text(found: Sequence[Attribution]) -> str:
    """What each method explains and how, then a row for each token."""
    from workbench.figures.saliency import attribution_note

    notes = [f"{attribution.method}: {attribution_note(attribution)}" for attribution in found]
    header = ("token", *(attribution.method for attribution in found))
    rows = [
        (printable(token), *(f"{attribution.scores[i]:+.4f}" for attribution in found))
        for i, token in enumerate(found[0].tokens)
    ]
    return "\n".join([*notes, table(header, rows)])


def examination_text(examination: Examination) -> str:
    """Measures, agreement and randomisation, each as a table with a row for each method."""
    return "\n\n".join(
        f"{statistic.name}\n{_matrix(statistic)}"
        for statistic in (examination.measures, examination.agreement, examination.randomisation)
    )


def _matrix(statistic: Statistic) -> str:
    rows, columns = (statistic.labels[axis] for axis in statistic.axes)
    cells = [
        (name, *("-" if math.isnan(v) else f"{v:.3f}" for v in values))
        for name, values in zip(rows, statistic.values.tolist(), strict=True)
    ]
    return table(("method", *map(str, columns)), cells)


def measures_text(results: Mapping[str, Mapping[str, Estimate]]) -> str:
    """A row for each method: mean of each measure and its interval; ``*`` marks those unlike the random floor."""
    methods = [name for name in results if " - " not in name]
    measures = list(dict.fromkeys(measure for name in methods for measure in results[name]))
    blocks = []
    for start in range(0, len(measures), _ACROSS):
        chosen = measures[start : start + _ACROSS]
        lines = [(name, *(_mean_cell(results, name, measure) for measure in chosen)) for name in methods]
        blocks.append(table(("method", *chosen), lines))
    note = "mean over texts, 95 % bootstrap interval; * unlike random: the interval of paired differences leaves out 0"
    return "\n\n".join([*blocks, note])


def _mean_cell(results: Mapping[str, Mapping[str, Estimate]], name: str, measure: str) -> str:
    estimate = results[name].get(measure)
    if estimate is None:
        return "-"
    difference = results.get(f"{name} - random", {}).get(measure)
    unlike = difference is not None and (difference.low > 0 or difference.high < 0)
    return f"{estimate.text(3)}{'*' if unlike else ''}"
