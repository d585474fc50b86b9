"""``workbench report``: stored runs as one HTML page, or their results as a table."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli._shared import PATH
from workbench.paths import check_folder, check_output
from workbench.terminal import say

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
    help="html, or the results alone as md, latex, csv, json or, in a folder, in lm-eval's layout: lm-eval.",
)
@click.option("--root", type=PATH, help="Where runs lie (default: runs/ or WORKBENCH_RUNS).")
def command(runs: tuple[str, ...], out: Path | None, form: str, root: Path | None) -> None:
    """Write one self-contained HTML file about RUN..., ids or paths of run folders.

    \b
    workbench report runs/20261127-224751-smollm2-135m-lambada_sample-7b18
    workbench report RUN RUN --out both.html
    workbench report RUN --format latex
    workbench report RUN --format lm-eval --out DIR
    """
    from workbench.evaluate.lm_eval_files import EXPORTED, write_lm_eval
    from workbench.report import render_table, report
    from workbench.runs import Run, write_atomically

    if out is not None and form == "lm-eval":
        check_folder(out)
    elif out is not None:
        check_output(out)
    opened = [Run.open(run, root) for run in dict.fromkeys(runs)]
    if form == "html":
        say(report(opened, out=out))
        return
    if form == "lm-eval":
        for run in opened:
            say(write_lm_eval(run, out or run.path / EXPORTED))
        return
    text = render_table(opened, form)
    if out is None:
        say(text, end="")
    else:
        write_atomically(out, text.encode())
        say(out)
