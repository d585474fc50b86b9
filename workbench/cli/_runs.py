"""What the verbs that store a run share: going on with a stored one, the JSON summary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from workbench.cli._model import model_record
from workbench.errors import RunError

if TYPE_CHECKING:
    from workbench.runs import Run

__all__ = ["MODEL_OPTIONS", "complete", "run_summary", "stored_run", "verdict"]

MODEL_OPTIONS = ("revision", "dtype", "implementation")
"""Options of a model that a run stores; the device may be another one when it is resumed."""


def stored_run(verb: str, resume: str | None, out: Path | None) -> Run | None:
    """The run to go on with, if any; raises :class:`~workbench.errors.RunError` if ``verb`` did not make it."""
    from workbench.runs import Run, find_run

    if not resume:
        return None
    run = Run.open(find_run(resume, out))
    if run.record.verb != verb:
        raise RunError(f"{run.path} was made by workbench {run.record.verb}, not by {verb}")
    return run


def complete(context: click.Context, values: dict[str, Any], stored: Mapping[str, Any]) -> None:
    """Fill ``values`` in from the ``stored`` options, but for those that were given."""
    for name, value in stored.items():
        if context.get_parameter_source(name) in (ParameterSource.DEFAULT, None) or values[name] is None:
            values[name] = value


def verdict(run: Run) -> str:
    """The self-check's verdict in one word."""
    return str((run.record.doctor or {}).get("verdict", "skipped"))


def run_summary(run: Run) -> dict[str, Any]:
    """What ``--json`` prints of every run: folder, model, results with intervals, throughput, doctor."""
    return {
        "run": str(run.path),
        "model": model_record(run, "first_token"),
        "results": {
            task: {name: estimate.to_dict() for name, estimate in metrics.items()}
            for task, metrics in run.results.items()
        },
        "throughput": run.throughput,
        "doctor": verdict(run),
    }
