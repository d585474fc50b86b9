"""``workbench report``: stored runs as one HTML page, or their results as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli._types import PATH
from workbench.errors import WorkbenchError
from workbench.paths import check_output
from workbench.terminal import say

if TYPE_CHECKING:
    from workbench.runs import Run

__all__ = ["command"]


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out",
    type=PATH,
    help="File to write (default: report.html in the run; for several runs report.html here).",
)
@click.option(
    "--format",
    "form",
    default="html",
    show_default=True,
    help="html, or the results alone as md, latex, csv or json.",
)
@click.option("--root", type=PATH, help="Where runs lie (default: runs/ or WORKBENCH_RUNS).")
def command(runs: tuple[str, ...], out: Path | None, form: str, root: Path | None) -> None:
    """Write one self-contained HTML file about RUN..., ids or paths of run folders.

    \b
    workbench report runs/20261127-224751-smollm2-135m-lambada_sample-7b18
    workbench report RUN RUN --out both.html
    workbench report RUN --format latex
    """
    from workbench.report import render_table, write_report
    from workbench.runs import Run, write_atomically

    if out is not None:
        check_output(out)
    opened = [Run.open(run, root) for run in dict.fromkeys(runs)]
    if form == "html":
        several = Path("report.html") if len(opened) > 1 else None
        say(write_report(opened, out or several, comparison=_compared(opened)))
        return
    text = render_table(opened, form)
    if out is None:
        say(text, end="")
    else:
        write_atomically(out, text.encode())
        say(out)


def _compared(runs: list[Run]) -> list[str]:
    """Verdicts in words on what the runs share; nothing where they share nothing, and why where they cannot."""
    from itertools import combinations

    from workbench.evaluate.compare import compare
    from workbench.evaluate.differences import differences_text, run_differences

    pairs = [
        pair
        for pair in combinations([run for run in runs if run.complete], 2)
        if set(pair[0].results) & set(pair[1].results)
    ]
    lines = []
    for first, second in pairs:
        try:
            found = compare([first, second])
        except WorkbenchError as error:
            lines.append(f"{first.record.id} and {second.record.id}: not compared, {error}")
            continue
        lines += [f"{c.task} {c.metric}, {c.first} and {c.second}: {c.verdict}" for c in found]
        lines.append(" ".join(differences_text(run_differences([first, second]))))
    return lines
