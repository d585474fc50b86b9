"""``workbench report``: the HTML report of a stored run."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("report")
@click.argument("run")
@click.option(
    "--out", type=click.Path(path_type=Path), help="HTML file to write (default: report.html in the run)."
)
@click.option(
    "--root", type=click.Path(path_type=Path), help="Where runs lie (default: runs/ or WORKBENCH_RUNS)."
)
def command(run: str, out: Path | None, root: Path | None) -> None:
    """Write one self-contained HTML file about RUN, a run id or the path of a run folder."""
    from workbench.report import write_report
    from workbench.runs import Run

    click.echo(write_report(Run.open(run, root), out))
