"""Laying out and writing the page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from workbench.errors import RunError
from workbench.report import _sections
from workbench.report._text import visible
from workbench.runs import Run, write_atomically

__all__ = ["render_report", "write_report"]

_FIGURE = "log_probability_by_length.svg"
# Drawn in this colour, then replaced, so that a figure follows the page into dark mode.
_INK = "#1a2b3d"


def write_report(run: Run, out: Path | None = None) -> Path:
    """Write one HTML file that needs no other, and return where it is.

    Without ``out`` it becomes ``report.html`` in the run's folder, and the figure is also stored in its
    ``figures/``. Raises :class:`~workbench.errors.RunError` if the place cannot be written.
    """
    target = Path(out) if out is not None else run.path / "report.html"
    if target.is_dir():
        raise RunError(f"--out {target} is a folder; give a file name such as {target / 'report.html'}")
    examples = run.examples()
    figure = _figure(examples)
    if figure and out is None:
        _store_figure(run, figure)
    write_atomically(target, _page(run, examples, figure).encode("utf-8", "backslashreplace"))
    return target


def render_report(run: Run) -> str:
    """The page as a string."""
    examples = run.examples()
    return _page(run, examples, _figure(examples))


def _page(run: Run, examples: pd.DataFrame, figure: str) -> str:
    groups = _sections.passages(examples)
    return _template("report.html.j2").render(
        title=" · ".join(visible(part) for part in _title(run)),
        run=run,
        style=Markup(_source("report.css")),
        results=_sections.result_rows(run),
        figure=Markup(figure.replace(_INK, "currentColor")),
        groups=groups,
        preview=([], []) if groups else _sections.preview(examples),
        count=len(examples),
        doctor=run.record.doctor,
        verdict=visible(str((run.record.doctor or {}).get("verdict", "unknown"))),
        checks=_sections.checks(run),
        sheets=_sections.sheets(run),
    )


def _title(run: Run) -> list[str]:
    name = run.record.model.get("name")
    tasks = list(run.results) or list(run.record.data)
    return [part for part in (str(name or run.record.verb), ", ".join(map(str, tasks))) if part]


def _figure(examples: pd.DataFrame) -> str:
    """The figure as an SVG element, or nothing where the examples have no target lengths."""
    if (
        not {"log_probability", "tokens"} <= set(examples.columns)
        or not examples["log_probability"].notna().any()
    ):
        return ""
    from workbench.figures._static import rendered
    from workbench.figures.lambada import log_probability_by_length

    svg = rendered(lambda: log_probability_by_length(examples, ink=_INK), "svg").decode()
    return svg[svg.index("<svg") :]


def _store_figure(run: Run, figure: str) -> None:
    folder = run.path / "figures"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make {folder}: {error.strerror or error}") from error
    write_atomically(folder / _FIGURE, figure.encode())


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("workbench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _template(name: str) -> Template:
    return _environment().get_template(name)


def _source(name: str) -> str:
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]
