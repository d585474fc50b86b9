"""Laying out and writing the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from workbench.errors import RunError, WorkbenchError
from workbench.report._parts import length_figure, overview, part
from workbench.report._pictures import Picture
from workbench.runs import Run, make_folder, write_atomically

__all__ = ["render_report", "write_report"]

_FIGURE = "log_probability_by_length.svg"


def write_report(
    runs: Run | Sequence[Run],
    out: Path | None = None,
    *,
    title: str = "",
    exhibits: Sequence[Picture] = (),
    comparison: Sequence[str] = (),
) -> Path:
    """Write one HTML file that needs no other, and return where it is.

    Several runs share a page with an overview. ``exhibits`` are further pictures, ``comparison`` sentences
    about the runs together. Without ``out`` a single run's page becomes ``report.html`` in its folder, and
    its figure is also stored in ``figures/``.

    Raises :class:`~workbench.errors.RunError` if the place cannot be written, or is missing for several runs.
    """
    several = _several(runs)
    if out is None and len(several) > 1:
        raise RunError(f"a report of {len(several)} runs needs a place; add --out report.html")
    target = Path(out) if out is not None else several[0].path / "report.html"
    if target.is_dir():
        raise RunError(f"--out {target} is a folder; give a file name such as {target / 'report.html'}")
    if out is None:
        _store_figure(several[0])
    content = render_report(several, title=title, exhibits=exhibits, comparison=comparison)
    write_atomically(target, content.encode("utf-8", "backslashreplace"))
    return target


def render_report(
    runs: Run | Sequence[Run],
    *,
    title: str = "",
    exhibits: Sequence[Picture] = (),
    comparison: Sequence[str] = (),
) -> str:
    """The page as a string; see :func:`write_report`."""
    several = _several(runs)
    parts = [part(run, number) for number, run in enumerate(several)]
    return _template("report.html.j2").render(
        title=title or (parts[0].title if len(parts) == 1 else f"{len(parts)} runs"),
        style=Markup(_source("report.css")),
        parts=parts,
        overview=overview(several, comparison) if len(parts) > 1 else None,
        exhibits=exhibits,
        markup=Markup,
    )


def _several(runs: Run | Sequence[Run]) -> list[Run]:
    several = [runs] if isinstance(runs, Run) else list(runs)
    if not several:
        raise WorkbenchError("a report needs at least one run; list them with: workbench runs")
    return several


def _store_figure(run: Run) -> None:
    figure = length_figure(run.examples())
    if not figure:
        return
    folder = run.path / "figures"
    make_folder(folder)
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
