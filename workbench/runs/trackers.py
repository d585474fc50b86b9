"""Stored runs in experiment trackers, through Accelerate's trackers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import ConfigError, RunError, did_you_mean, needs_extra
from workbench.runs._run import Run

if TYPE_CHECKING:
    from accelerate.tracking import GeneralTracker

__all__ = ["TRACKERS", "check_trackers", "report_run"]

_PROJECT = "workbench"


def _tensorboard(run: Run) -> GeneralTracker:
    from accelerate.tracking import TensorBoardTracker

    return TensorBoardTracker(run.record.id, logging_dir=str(run.path / "tensorboard"))


def _wandb(run: Run) -> GeneralTracker:
    from accelerate.tracking import WandBTracker

    return WandBTracker(_PROJECT, name=run.record.id)


def _mlflow(run: Run) -> GeneralTracker:
    from accelerate.tracking import MLflowTracker

    return MLflowTracker(experiment_name=_PROJECT, run_name=run.record.id)


# what a user calls it -> its tracker for a run; the name is also that of its package
TRACKERS: dict[str, Callable[[Run], GeneralTracker]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "mlflow": _mlflow,
}


def check_trackers(names: Sequence[str]) -> tuple[str, ...]:
    """``names`` if a run can be reported there; raises :class:`~workbench.errors.ConfigError` for what is missing."""
    for name in names:
        if name not in TRACKERS:
            raise ConfigError(f"cannot report to {name!r}; {did_you_mean(name, list(TRACKERS))}")
        if find_spec(name) is None:
            raise ConfigError(f"reporting to {name} needs its package: pip install {name}")
    if names and find_spec("accelerate") is None:
        raise ConfigError(needs_extra("reporting to trackers", "accelerate", "train"))
    return tuple(names)


def report_run(run: Run, names: Sequence[str]) -> None:
    """Report the recipe, the loss curves and the results of ``run`` to the trackers ``names``.

    Results are scalars ``TASK/METRIC`` with ``_stderr``, ``_low`` and ``_high``, at the last step of training
    or at 0; curves are the lines of ``log.jsonl``, under ``train/`` (``train-seedN/`` for further seeds). TensorBoard's
    files lie in the run's folder, W&B's project and MLflow's experiment are called "workbench". Raises as
    :func:`check_trackers` does, and :class:`~workbench.errors.RunError` where a tracker refuses.

    Example:
        ```python
        import workbench
        from workbench.runs.trackers import report_run

        run = workbench.evaluate("novels-decoder", tasks="lambada_sample", limit=5, doctor=False)
        report_run(run, ["tensorboard"])
        print(list(run.path.glob("tensorboard/*/*")))
        ```
    """
    for name in check_trackers(names):
        from accelerate import PartialState

        PartialState()  # Accelerate's trackers ask it which process they are in
        try:
            _report(run, TRACKERS[name](run))
        except Exception as error:
            # of many libraries: no login, no server, a store that is no longer supported
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise RunError(
                f"cannot report to {name}: {reason}; the run itself is stored in {run.path}"
            ) from error


def _report(run: Run, tracker: GeneralTracker) -> None:
    tracker.start()
    tracker.store_init_configuration(_configuration(run))
    last = 0
    for step, values in _curves(run.path):
        tracker.log(values, step=step)
        last = max(last, step)
    tracker.log(_results(run), step=last)
    tracker.finish()


def _configuration(run: Run) -> dict[str, Any]:
    """Recipe, model and seeds as flat values that every tracker takes."""
    record = run.record
    parts = {"recipe": record.recipe, "model": record.model, "seeds": record.seeds}
    flat = {f"{part}.{key}": value for part, values in parts.items() for key, value in values.items()}
    return {
        "verb": record.verb,
        **{
            key: value if isinstance(value, str | int | float) else json.dumps(value)
            for key, value in flat.items()
        },
    }


def _results(run: Run) -> dict[str, float]:
    found: dict[str, float | None] = {}
    for task, metrics in run.results.items():
        for metric, e in metrics.items():
            name = f"{task}/{metric}"
            found |= {name: e.value, f"{name}_stderr": e.standard_error}
            found |= {f"{name}_low": e.low, f"{name}_high": e.high}
    return _finite(found)


def _curves(folder: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Step and numbers of each line of the run's logs, in the order of steps."""
    lines = [
        (
            int(row["step"]),
            _finite({f"train{path.stem[3:]}/{key}": v for key, v in row.items() if key != "step"}),
        )
        for path in sorted(folder.glob("log*.jsonl"))
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    ]
    yield from sorted(lines, key=lambda line: line[0])


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    """Finite numbers alone, under names that every tracker takes: MLflow refuses ``p@1``."""
    return {
        re.sub(r"[^\w./ -]", "_", name): float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
