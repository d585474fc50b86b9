"""What stored runs say together: learning curves, sweeps, and metrics over training steps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.dashboard.store import runs_folder
from workbench.figures import Curve
from workbench.runs import RunSummary
from workbench.training.progress import read_log
from workbench.training.sweep import SweepRow

__all__ = ["learning_curves", "over_steps", "step_curves", "stored_sweeps", "training_log"]

_STEP = re.compile(r"(.+?)[/@]step-(\d+)/?")


def training_log(run: RunSummary) -> pd.DataFrame:
    """The log of a training run, one row a record, steps in order; empty for a run that trained nothing."""
    rows = [row for row in read_log(run.path / "log.jsonl") if isinstance(row, dict) and "step" in row]
    return pd.DataFrame(rows)


def learning_curves(logs: dict[str, pd.DataFrame], column: str) -> list[Curve]:
    """A curve over steps for each log that has ``column``."""
    curves = []
    for name, log in logs.items():
        if column in log:
            part = log.dropna(subset=[column])
            if len(part):
                curves.append(
                    Curve(name=name, x=part["step"].tolist(), y=part[column].astype(float).tolist())
                )
    return curves


def over_steps(runs: Sequence[RunSummary]) -> pd.DataFrame:
    """Every stored metric of models that are checkpoints of one training: model, step, task, metric, value, ends.

    A checkpoint's name ends with ``step-N``; of two runs of one checkpoint the newer counts.
    """
    rows: dict[tuple[str, int, str, str], dict[str, Any]] = {}
    for run in sorted(runs, key=lambda r: r.id):
        match = _STEP.fullmatch(str(run.record.model.get("name", ""))) if run.record else None
        if match is None:
            continue
        for task, metrics in run.results.items():
            for metric, estimate in metrics.items():
                key = (match[1], int(match[2]), task, metric)
                ends = {"low": estimate.low, "high": estimate.high}
                names = dict(zip(("model", "step", "task", "metric"), key, strict=True))
                rows[key] = {
                    **names,
                    "value": estimate.value,
                    **ends,
                    "run": run.id,
                    "undefined": estimate.undefined or "",
                }
    frame = pd.DataFrame(
        rows.values(), columns=["model", "step", "task", "metric", "value", "low", "high", "run", "undefined"]
    )
    return frame.sort_values(["model", "task", "metric", "step"], ignore_index=True)


def step_curves(frame: pd.DataFrame) -> list[Curve]:
    """A curve with its band for each model and metric of :func:`over_steps`."""
    return [
        Curve(
            name=f"{Path(str(model)).name} {task} {metric}",
            x=part["step"].tolist(),
            y=part["value"].tolist(),
            low=part["low"].tolist(),
            high=part["high"].tolist(),
        )
        for (model, task, metric), part in frame.groupby(["model", "task", "metric"], sort=False)
    ]


def stored_sweeps() -> dict[str, list[SweepRow]]:
    """The sweeps in the runs folder, by name; files that are none are passed over."""
    known = {field.name for field in fields(SweepRow)}
    found = {}
    for path in sorted(runs_folder().glob("*/sweep.json")):
        if path.is_symlink() or path.parent.is_symlink():
            continue
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
            found[path.parent.name] = [
                SweepRow(**{k: v for k, v in row.items() if k in known}) for row in rows
            ]
        except (OSError, ValueError, TypeError, AttributeError):
            continue
    return found
