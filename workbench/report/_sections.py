"""From a run to the records that the template lays out; a section that does not apply is empty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from workbench.citations import papers_of_run
from workbench.estimate import Estimate
from workbench.runs import Run
from workbench.terminal import counted

__all__ = [
    "CheckSection",
    "Passages",
    "ResultRow",
    "Sheet",
    "TextSection",
    "checks",
    "clip_left",
    "flatten",
    "measured",
    "number",
    "passages",
    "preview",
    "result_rows",
    "shown",
    "visible",
]

# Bidirectional overrides and isolates could reorder the report around them.
_BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]


_VISIBLE = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}


_VISIBLE |= {0x7F: "␡"} | {code: f"⟨U+{code:04X}⟩" for code in [*range(0x80, 0xA0), *_BIDI]}


def visible(text: str) -> str:
    """``text`` with control characters and direction overrides replaced by signs that can be seen."""
    return text.translate(_VISIBLE).encode("utf-8", "backslashreplace").decode()


def clip_left(text: str, limit: int) -> str:
    """The last ``limit`` characters, saying how many came before."""
    if len(text) <= limit:
        return text
    return f"[{len(text) - limit:,} characters] … {text[-limit:]}"


def number(value: Any) -> str:
    """A number in four significant digits, thousands grouped; an en dash for what is missing."""
    if value is None or value is False or value is True:
        return "–" if value is None else shown(value)
    if not isinstance(value, int | float):
        return visible(str(value))
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}" if math.isfinite(value) else "∞" if value > 0 else "−∞"
    return "–" if math.isnan(value) else f"{value:.4g}"


def measured(value: float) -> str:
    """As :func:`number`, with trailing zeros kept: 0.2300 was measured no less exactly than 0.2345."""
    if not math.isfinite(value) or abs(value) >= 1000 or 1e-15 < abs(value) < 1e-4:
        return number(value)
    return f"{value:#.4g}" if abs(value) > 1e-15 else "0"  # below that lies rounding


def shown(value: Any) -> str:
    """Any stored value as text: switches as yes and no, lists joined, nothing as an en dash."""
    if hasattr(value, "tolist"):  # a NumPy value, as a list column or a cell of a frame has it
        value = value.tolist()
    if value is None or value == "" or value == [] or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(shown(v) for v in value)
    return visible(str(value))


def flatten(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested dictionaries as rows (dotted name, text)."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            rows += flatten(value, f"{prefix}{name}.")
        else:
            rows.append((visible(f"{prefix}{name}"), shown(None if value == {} else value)))
    return rows


__all__ += ["sheets"]


_EXTREMES = 20


_CONTEXT = 700  # characters of a passage shown


@dataclass(frozen=True)
class ResultRow:
    """One line of the results table, ready to print."""

    task: str
    metric: str
    better: str
    value: str
    interval: str
    confidence: str
    standard_error: str
    n: str
    method: str


@dataclass(frozen=True)
class TextSection:
    """One passage with its target apart from its context."""

    id: str
    context: str
    target: str
    predicted: str
    greedy: bool
    numbers: tuple[str, ...]  # log-probability, tokens, rank


@dataclass(frozen=True)
class Passages:
    """The passages of one task with the lowest and the highest log-probability."""

    task: str
    count: int
    worst: tuple[TextSection, ...]
    best: tuple[TextSection, ...]


@dataclass(frozen=True)
class CheckSection:
    """One check of the doctor."""

    name: str
    status: str
    value: str
    tolerance: str
    detail: str


@dataclass(frozen=True)
class Sheet:
    """A titled list of names and values."""

    title: str
    rows: list[tuple[str, str]] = field(default_factory=list)


def result_rows(run: Run) -> list[ResultRow]:
    """All results, task by task."""
    return [
        _result_row(task, metric, estimate)
        for task, metrics in run.results.items()
        for metric, estimate in metrics.items()
    ]


def _result_row(task: str, metric: str, estimate: Estimate) -> ResultRow:
    why = visible(estimate.undefined or "")
    return ResultRow(
        task=visible(task),
        metric=visible(metric),
        better={True: "higher is better", False: "lower is better", None: ""}[estimate.higher_is_better],
        value=f"undefined ({why})" if math.isnan(estimate.value) else measured(estimate.value),
        interval=f"undefined ({why})"
        if math.isnan(estimate.low)
        else f"{measured(estimate.low)} to {measured(estimate.high)}",
        confidence=f"{100 * estimate.confidence:g} %",
        standard_error=f"undefined ({why})"
        if math.isnan(estimate.standard_error)
        else measured(estimate.standard_error),
        n=number(estimate.n),
        method=visible(estimate.method),
    )


def passages(examples: pd.DataFrame) -> list[Passages]:
    """Per task, the extremes by log-probability; nothing where the run has no such column."""
    if not {"text", "log_probability"} <= set(examples.columns):
        return []
    tasks = examples["task"] if "task" in examples else pd.Series("all passages", index=examples.index)
    groups = []
    for task, rows in examples.dropna(subset=["log_probability"]).groupby(tasks, sort=False):
        ordered = rows.sort_values("log_probability", kind="stable")
        count = min(_EXTREMES, len(ordered) // 2)  # no passage is both
        best = ordered.iloc[::-1].head(count)
        groups.append(Passages(visible(str(task)), len(rows), _listed(ordered.head(count)), _listed(best)))
    return [group for group in groups if group.worst]


def _listed(rows: pd.DataFrame) -> tuple[TextSection, ...]:
    return tuple(_passage(row) for row in rows.to_dict("records"))


def _passage(row: dict[Any, Any]) -> TextSection:
    text, target = str(_present(row, "text") or ""), str(_present(row, "target") or "")
    context = text.removesuffix(target) if target else text
    return TextSection(
        id=visible(str(row.get("id", ""))),
        context=visible(clip_left(context, _CONTEXT)) + (" " if target.startswith(" ") else ""),
        target=visible(clip_left(target, _CONTEXT).removeprefix(" ")),  # the blank is not highlighted
        predicted=visible(clip_left(str(_present(row, "predicted") or ""), 100)),
        greedy=bool(_present(row, "greedy")),
        numbers=(
            f"{row['log_probability']:.3f}",
            number(_whole(_present(row, "tokens"))),
            number(_whole(_present(row, "rank"))),
        ),
    )


def _present(row: dict[Any, Any], name: str) -> Any:
    """The cell, or ``None`` where the column is missing or empty (pandas says NaN)."""
    value = row.get(name)
    return None if value is None or pd.isna(value) else value


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def preview(examples: pd.DataFrame) -> tuple[tuple[list[str], list[list[str]]], str]:
    """Column names and rows of examples that are no passages, and which rows they are: failures come first."""
    verdicts = [name for name in _VERDICTS if name in examples and examples[name].notna().any()]
    ordered, note = examples, "The first"
    if verdicts:
        ordered, note = examples.sort_values(verdicts[0], kind="stable"), "Those that went wrong first:"
    head = ordered.head(_EXTREMES).astype(object)
    rows = [[visible(clip_left(shown(v), 200)) for v in row] for row in head.itertuples(index=False)]
    return ([visible(str(name)) for name in head.columns], rows), note


_VERDICTS = ("passed", "correct", "is_correct")  # columns of yes and no, no first


def checks(run: Run) -> list[CheckSection]:
    """The doctor's checks; none if it did not run."""
    return [
        CheckSection(
            name=visible(str(entry.get("name", ""))),
            status=visible(str(entry.get("status", ""))),
            value=number(entry.get("value")),
            tolerance=number(entry.get("tolerance")),
            detail=visible(str(entry.get("detail") or "")),
        )
        for entry in (run.record.doctor or {}).get("checks", [])
    ]


def sheets(run: Run) -> list[Sheet]:
    """Recipe, identities and environment as lists."""
    record = run.record
    source = {"workbench revision": record.git_revision, "created": record.created}
    metrics = dict.fromkeys(name for of_task in run.results.values() for name in of_task)
    cited = papers_of_run(record.verb, record.recipe, metrics)
    all_sheets = [
        Sheet("Recipe", [("verb", visible(record.verb)), *flatten(record.recipe)]),
        Sheet("Model", flatten(record.model)),
        Sheet("Data", flatten(record.data)),
        Sheet("Seeds", flatten(record.seeds)),
        Sheet("Throughput", [(name, number(value)) for name, value in run.throughput.items()]),
        Sheet("Notes", flatten(run.notes)),
        Sheet("To cite", [(paper.short, f"{paper.title}, {paper.venue} {paper.url}") for paper in cited]),
        Sheet("Machine", flatten(record.device)),
        Sheet("Software", flatten({**source, **record.packages})),
    ]
    return [_clipped(sheet) for sheet in all_sheets if sheet.rows]


def _clipped(sheet: Sheet) -> Sheet:
    rest = len(sheet.rows) - _MOST_ROWS
    if rest <= 0:
        return sheet
    return Sheet(
        sheet.title, [*sheet.rows[:_MOST_ROWS], ("…", f"{counted(rest, 'more line')} in the run's folder")]
    )


_MOST_ROWS = 40  # of a sheet
