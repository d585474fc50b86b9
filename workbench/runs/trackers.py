"""Runs in experiment trackers, finished and running ones, through Accelerate's trackers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import ConfigError, RunError, did_you_mean, needs_extra
from workbench.runs._record import RunRecord
from workbench.runs._run import Run

if TYPE_CHECKING:
    from accelerate.tracking import GeneralTracker

__all__ = ["TRACKERS", "LiveReport", "check_trackers", "curve_values", "report_run"]

_PROJECT = "workbench"


def _tensorboard(record: RunRecord, folder: Path) -> GeneralTracker:
    from accelerate.tracking import TensorBoardTracker

    return TensorBoardTracker(record.id, logging_dir=str(folder / "tensorboard"))


def _wandb(record: RunRecord, folder: Path) -> GeneralTracker:
    from accelerate.tracking import WandBTracker

    return WandBTracker(_PROJECT, name=record.id)


def _mlflow(record: RunRecord, folder: Path) -> GeneralTracker:
    from accelerate.tracking import MLflowTracker

    return MLflowTracker(experiment_name=_PROJECT, run_name=record.id)


# what a user calls it -> its tracker for a run and its folder; the name is also that of its package
TRACKERS: dict[str, Callable[[RunRecord, Path], GeneralTracker]] = {
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


class LiveReport:
    """A run in the trackers ``names`` from its beginning on: its recipe, the values given to :meth:`log`, its results.

    TensorBoard's files lie in the run's folder, W&B's project and MLflow's experiment are called "workbench". A tracker
    that refuses at the beginning raises :class:`~workbench.errors.RunError` there, and the others are closed; one that
    fails later is left out, and :meth:`finish` raises the error, so that training goes on. :meth:`close` belongs in a
    ``finally``.

    Steps never go back, since W&B drops those that do: a further curve (what its names begin with, such as
    ``train-seed1``) that begins at a lower step goes on from the last step reported, with its own step as
    ``CURVE/step``; steps that are done again after an error are reported once.
    """

    def __init__(self, names: Sequence[str], record: RunRecord, folder: Path) -> None:
        self._trackers: dict[str, GeneralTracker] = {}
        self._failed: RunError | None = None
        self._folder = folder
        self._last = 0
        self._begins: dict[str, int] = {}  # curve -> what is added to its steps
        self._reported: dict[str, int] = {}  # name of a value -> its last step
        for name in check_trackers(names):
            from accelerate import PartialState

            PartialState()  # Accelerate's trackers ask it which process they are in
            with self._explained(name):
                tracker = TRACKERS[name](record, folder)
                tracker.start()
                tracker.store_init_configuration(_configuration(record))
                self._trackers[name] = tracker
            if name not in self._trackers:
                self._end()

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Numbers of one curve, called ``CURVE/NAME``, at a step of its training."""
        new = {name: value for name, value in values.items() if step > self._reported.get(name, -1)}
        if not new:
            return
        self._reported |= dict.fromkeys(new, step)
        curve = next(iter(new)).split("/")[0]
        begin = self._begins.setdefault(curve, self._last if step < self._last else 0)
        self._last = max(self._last, begin + step)
        self._send(begin + step, {**new, f"{curve}/step": step} if begin else new)

    def finish(self, run: Run) -> None:
        """Report the results at the last step, and close; raises :class:`~workbench.errors.RunError`."""
        self._send(self._last, _results(run))
        self._end()

    def close(self) -> None:
        """Close what is still open; a second time changes nothing."""
        for name, tracker in list(self._trackers.items()):
            with self._explained(name):
                tracker.finish()
        self._trackers.clear()

    def _end(self) -> None:
        """Close, and raise the first error of a tracker."""
        self.close()
        if self._failed is not None:
            raise self._failed

    def _send(self, step: int, values: Mapping[str, Any]) -> None:
        for name, tracker in list(self._trackers.items()):
            with self._explained(name):
                tracker.log(_finite(values), step=step)

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Keep the first error of a tracker, which is left out from then on."""
        try:
            yield
        except Exception as error:
            # of many libraries: no login, no server, a store that is no longer supported
            self._trackers.pop(name, None)
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            said = f"cannot report to {name}: {reason}; the run itself is stored in {self._folder}"
            self._failed = self._failed or RunError(said)


def report_run(run: Run, names: Sequence[str]) -> None:
    """Report the recipe, the loss curves and the results of a stored ``run`` to the trackers ``names``.

    Results are scalars ``TASK/METRIC`` with ``_stderr``, ``_low`` and ``_high``, at the last step of training
    or at 0; curves are the lines of ``log.jsonl``, under ``train/`` (``train-seedN/`` for further seeds). Raises as
    :func:`check_trackers` and :class:`LiveReport` do.

    Example:
        ```python
        import workbench
        from workbench.runs.trackers import report_run

        run = workbench.evaluate("novels-decoder", tasks="lambada_sample", limit=5, doctor=False)
        report_run(run, ["tensorboard"])
        print(list(run.path.glob("tensorboard/*/*")))
        ```
    """
    report = LiveReport(names, run.record, run.path)
    for step, values in _curves(run.path):
        report.log(step, values)
    report.finish(run)


def curve_values(log: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a log under the names of curves: ``train/loss``, of a further seed's log ``train-seed1/loss``."""
    return {f"train{log.stem[3:]}/{key}": value for key, value in row.items() if key != "step"}


def _configuration(record: RunRecord) -> dict[str, Any]:
    """Recipe, model and seeds as flat values that every tracker takes."""
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


def _curves(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Step and numbers of each line of the run's logs, in the order of steps."""
    lines = [
        (int(row["step"]), curve_values(path, row))
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
