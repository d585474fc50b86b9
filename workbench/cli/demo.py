"""``workbench demo``: a real model on real text, from self-check to report, with nothing configured."""

from __future__ import annotations

import sys
from pathlib import Path

import click

__all__ = ["command"]

MODEL, TASK = "smollm2-135m", "lambada_sample"


@click.command(name="demo")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder that gets the run folder (default: runs/)."
)
def command(out: Path | None) -> None:
    """Examine smollm2-135m on the bundled passages: doctor, accuracy and perplexity, report.

    Takes under three minutes on two cores and needs no network.
    """
    from workbench.cli._tables import doctor_table
    from workbench.cli.evaluate import print_run
    from workbench.evaluate import Settings, evaluate
    from workbench.models import load
    from workbench.report import write_report

    click.echo(f"1. load {MODEL}")
    model = load(MODEL)
    click.echo(f"2. check its numerics, then predict the last word of 60 passages ({TASK})\n")
    run = evaluate(model, Settings(tasks=(TASK,)), out=out, progress=sys.stderr.isatty())
    click.echo(doctor_table((run.record.doctor or {}).get("checks", [])) + "\n")
    print_run(run)
    click.echo(f"\n3. report: {write_report(run).resolve()}")
