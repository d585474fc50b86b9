"""The checkpoint axis: the same evaluation of every model that a training run kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from workbench.choices import DEFAULT_DTYPE
from workbench.errors import ModelError
from workbench.evaluate._evaluate import evaluate
from workbench.evaluate._settings import EvaluateSettings
from workbench.models import load
from workbench.models.names import checkpoints_of, is_checkpoint_name, step_of
from workbench.runs import Run

__all__ = ["evaluate_over_steps"]


def evaluate_over_steps(
    name: str,
    settings: EvaluateSettings,
    *,
    out: Path | None = None,
    dtype: str = DEFAULT_DTYPE,
    device: str = "auto",
    tell: Callable[[int, Run], None] = lambda step, run: None,
) -> pd.DataFrame:
    """Evaluate all checkpoints of ``name``, a training run's folder or ``FOLDER@step-*``, each as a run of its own.

    One row a step, task and metric: ``step``, ``task``, ``metric``, ``value``, ``low``, ``high``, ``run``,
    ``undefined`` (why a number is). ``tell``
    is called after each run. Raises :class:`~workbench.errors.ModelError` if there are no checkpoints.
    """
    folders = checkpoints_of(name)
    if len(folders) < 2 and not is_checkpoint_name(name):
        raise ModelError(f"{name} has one checkpoint only; keep more: workbench train --keep-steps 0,1,2,4,…")
    rows = []
    for folder in folders:
        run = evaluate(load(str(folder), dtype=dtype, device=device), settings, out=out, doctor=False)
        tell(step_of(folder), run)
        rows += [
            {
                "step": step_of(folder),
                "task": task,
                "metric": metric,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "run": str(run.path),
                "undefined": estimate.undefined or "",
            }
            for task, metrics in run.results.items()
            for metric, estimate in metrics.items()
        ]
    return pd.DataFrame(rows)
