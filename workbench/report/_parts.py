"""What the template lays out: one part for each run, and an overview where there are several."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from workbench.figures.lambada import log_probability_by_length
from workbench.figures.static import rendered
from workbench.report import _sections
from workbench.report._pictures import Picture, pictures, results_picture
from workbench.report._sections import visible
from workbench.report._tables import results_frame
from workbench.runs import Run, reads_runs

__all__ = ["INK", "Attachment", "Overview", "ReportPart", "length_figure", "overview", "part", "title_of"]

# Drawn in this colour, then replaced, so that a figure follows the page into dark mode.
INK = "#1a2b3d"
_LARGEST_ATTACHMENT = 4 << 20  # bytes of CSV inside the page


@dataclass(frozen=True)
class Attachment:
    """A table inside the page, as a data address that saves as a file."""

    name: str
    source: str
    note: str = ""


@dataclass(frozen=True)
class ReportPart:
    """Everything shown of one run."""

    title: str
    anchor: str
    run: Run
    results: list[_sections.ResultRow]
    figure: str  # an SVG element of our own drawing
    pictures: list[Picture]
    groups: list[_sections.Passages]
    preview: tuple[list[str], list[list[str]]]
    preview_note: str
    count: int
    doctor: bool
    verdict: str
    checks: list[_sections.CheckSection]
    sheets: list[_sections.Sheet]
    attachments: list[Attachment]


@dataclass(frozen=True)
class Overview:
    """All results of several runs side by side."""

    rows: list[tuple[str, str, str, str, str]]  # model, anchor, task, metric, value with interval
    pictures: list[Picture]
    comparison: list[str]
    attachment: Attachment


@reads_runs
def part(run: Run, number: int) -> ReportPart:
    """The part of a run; ``number`` makes its anchor."""
    examples = run.examples()
    groups = _sections.passages(examples)
    preview, note = _sections.preview(examples)
    return ReportPart(
        title=title_of(run),
        anchor=f"run-{number}",
        run=run,
        results=_sections.result_rows(run),
        figure=length_figure(examples).replace(INK, "currentColor"),
        pictures=pictures(run),
        groups=groups,
        preview=([], []) if groups else preview,
        preview_note=note,
        count=len(examples),
        doctor=run.record.doctor is not None,
        verdict=visible(str((run.record.doctor or {}).get("verdict", "unknown"))),
        checks=_sections.checks(run),
        sheets=_sections.sheets(run),
        attachments=[
            _attached(f"{run.record.id}-results.csv", results_frame([run])),
            _attached(f"{run.record.id}-examples.csv", examples),
        ],
    )


@reads_runs
def overview(runs: Sequence[Run], comparison: Sequence[str] = ()) -> Overview:
    """Every value of every run, with a link to its part."""
    rows = [
        (
            visible(str(run.record.model.get("name", run.record.verb))),
            f"run-{number}",
            row.task,
            row.metric,
            f"{row.value} ({row.interval})",
        )
        for number, run in enumerate(runs)
        for row in _sections.result_rows(run)[:_MOST_ROWS]
    ]
    return Overview(
        rows,
        results_picture(list(runs)),
        [visible(line) for line in comparison],
        _attached("results.csv", results_frame(runs)),
    )


_MOST_ROWS = 12  # of one run; its own part has them all


def title_of(run: Run) -> str:
    """Model and tasks."""
    tasks = list(run.results) or list(run.record.data)
    if len(tasks) > 4:  # the groups of one task are named by what they share
        tasks = list(dict.fromkeys(str(task).partition("/")[0] for task in tasks))
    named = ", ".join(map(str, tasks[:4])) + (f" and {len(tasks) - 4} more" if len(tasks) > 4 else "")
    parts = (str(run.record.model.get("name") or run.record.verb), named)
    return " · ".join(visible(text) for text in parts if text)


def length_figure(examples: pd.DataFrame) -> str:
    """Log-probability by target length as an SVG element; nothing where the examples have no target lengths."""
    has_lengths = {"log_probability", "tokens"} <= set(examples.columns)
    if not has_lengths or not examples["log_probability"].notna().any():
        return ""
    svg = rendered(lambda: log_probability_by_length(examples, ink=INK), "svg").decode()
    return svg[svg.index("<svg") :]


def _attached(name: str, frame: pd.DataFrame) -> Attachment:
    content, note = frame.to_csv(index=False).encode("utf-8", "backslashreplace"), ""
    if len(content) > _LARGEST_ATTACHMENT:
        kept = max(1, int(len(frame) * _LARGEST_ATTACHMENT / len(content)))
        content = frame.head(kept).to_csv(index=False).encode("utf-8", "backslashreplace")
        note = f"the first {kept:,} of {len(frame):,} rows; all are in examples.parquet of the run"
    return Attachment(visible(name), f"data:text/csv;base64,{base64.b64encode(content).decode()}", note)
