"""``workbench runs``: the stored runs and their results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.characters import neutral
from workbench.cli._shared import PATH
from workbench.terminal import say, say_json

if TYPE_CHECKING:
    from workbench.runs import RunSummary

__all__ = ["command"]


@click.command("runs")
@click.option("--root", type=PATH, help="Where runs lie (default: runs/ or WORKBENCH_RUNS).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list and nothing else.")
def command(root: Path | None, as_json: bool) -> None:
    """List the stored runs, oldest first; folders that are no readable run are listed as such."""
    from workbench.runs import default_root, list_runs

    root = root or default_root()
    runs = list_runs(root)
    if as_json:
        say_json([_entry(run) for run in runs], indent=2)
    elif not runs:
        say(f"no runs in {root}; make one with: workbench evaluate MODEL --task lambada_sample")
    for run in [] if as_json else runs:
        say(_line(run))


def _entry(run: RunSummary) -> dict[str, Any]:
    record = run.record
    return {
        "id": run.id,
        "path": str(run.path),
        "state": str(run.state),
        "verb": record.verb if record else None,
        "model": record.model.get("name") if record else None,
        "created": record.created if record else None,
        "doctor": (record.doctor or {}).get("verdict") if record else None,
        "results": {t: {m: e.to_dict() for m, e in metrics.items()} for t, metrics in run.results.items()},
        "problem": run.problem or None,
    }


def _line(run: RunSummary) -> str:
    numbers = [
        f"{task} {metric} {e}" for task, metrics in run.results.items() for metric, e in metrics.items()
    ]
    return neutral(f"{run.id}  {run.state}  {run.problem or '; '.join(numbers)}".rstrip())
