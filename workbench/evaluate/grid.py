"""Many models on many tasks: one run folder a cell, resumable, and a summary table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.errors import ConfigError, did_you_mean
from workbench.evaluate._names import expand, find_task
from workbench.evaluate._settings import EvaluateSettings
from workbench.evaluate.grid_cells import Cell, CellResult, ModelChoice, run_cell, stored_run
from workbench.records import check_value
from workbench.runs import Run, make_folder, write_atomically
from workbench.yaml_reader import read_values

__all__ = ["CellResult", "Grid", "read_grid", "run_grid", "summary"]

_SETTINGS = tuple(f.name for f in fields(EvaluateSettings) if f.name != "tasks")


@dataclass(frozen=True)
class Grid:
    """Every one of ``models`` on every one of ``tasks``."""

    models: tuple[ModelChoice, ...]
    tasks: tuple[str, ...]
    settings: Mapping[str, Any]
    batch_tokens: str | int = "auto"
    doctor: bool = False

    def cells(self) -> tuple[Cell, ...]:
        """In order of models, then tasks."""
        return tuple(
            Cell(model, EvaluateSettings(tasks=(task,), **self.settings), self.batch_tokens, self.doctor)
            for model in self.models
            for task in self.tasks
        )


def read_grid(path: Path) -> Grid:
    """Read a YAML file that lists models and tasks.

    ``models`` are names, or mappings with ``name``, ``dtype``, ``revision``, ...; ``tasks`` are names or groups. Beside
    them stand any settings of an evaluation, ``batch_tokens`` and ``doctor``. Raises
    :class:`~workbench.errors.ConfigError` naming the field, and :class:`~workbench.errors.TaskError` for an
    unknown task, before anything is run.
    """
    content = read_values(path)
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} must hold a mapping with models and tasks, holds a {type(content).__name__}"
        )
    known = ["models", "tasks", "batch_tokens", "doctor", *_SETTINGS]
    for name in content:
        if name not in known:
            raise ConfigError(f"{path}: unknown field {name!r}; {did_you_mean(str(name), known)}")
    models, tasks = (_listed(content, name, path) for name in ("models", "tasks"))
    if not all(isinstance(task, str) for task in tasks):
        raise ConfigError(f"{path}: tasks are {tasks!r:.60}; allowed: a list of names")
    settings = {name: content[name] for name in _SETTINGS if name in content}
    check_value("batch_tokens", content.get("batch_tokens", "auto"), str | int)
    check_value("doctor", content.get("doctor", False), bool)
    grid = Grid(
        models=tuple(_model(entry, path) for entry in models),
        tasks=expand(tasks),
        settings=settings,
        batch_tokens=content.get("batch_tokens", "auto"),
        doctor=content.get("doctor", False),
    )
    for cell in grid.cells():
        find_task(cell.task, cell.settings.options)
    return grid


def _listed(content: Mapping[str, Any], name: str, path: Path) -> list[Any]:
    value = content.get(name)
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{path}: {name} is {value!r:.60}; allowed: a list of one or more")
    return value


def _model(entry: Any, path: Path) -> ModelChoice:
    if isinstance(entry, str):
        return ModelChoice(entry)
    known = [f.name for f in fields(ModelChoice)]
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ConfigError(f"{path}: a model is {entry!r:.80}; allowed: a name, or a mapping with a name")
    for name in entry:
        if name not in known:
            raise ConfigError(f"{path}: model field {name!r} is unknown; {did_you_mean(str(name), known)}")
    return ModelChoice(**{name: value for name, value in entry.items() if value is not None})


def run_grid(
    grid: Grid,
    out: Path,
    *,
    engine: str = "local",
    workers: int = 2,
    address: str | None = None,
    tell: Callable[[CellResult], None] = lambda result: None,
) -> tuple[CellResult, ...]:
    """Run every cell that has no finished run under ``out`` yet; go on with those that were cut short.

    ``engine`` is "local" (one after another, each model loaded once) or "ray" (a Ray cluster at ``address``, or
    ``workers`` processes of this machine; all machines must reach ``out``). A cell that fails keeps its problem and the
    others go on. The table is written to ``out/summary.csv``.
    """
    if engine not in ("local", "ray"):
        raise ConfigError(f"engine is {engine!r}; allowed: local, ray")
    make_folder(out)
    cells = grid.cells()
    found = {cell: stored_run(cell, out) for cell in cells}
    finished = {cell: CellResult(cell, run.path) for cell, run in found.items() if run and run.complete}
    for result in finished.values():
        tell(result)
    cut_short = {cell: run.path for cell, run in found.items() if run and not run.complete}
    work = [(cell, cut_short.get(cell)) for cell in cells if cell not in finished]
    if engine == "ray":
        from workbench.evaluate.grid_ray import run_on_ray

        done = run_on_ray(work, out, workers, address, tell)
    else:
        done = _run_here(work, out, tell)
    results = tuple((finished | done)[cell] for cell in cells)
    write_atomically(out / "summary.csv", summary(results).to_csv(index=False).encode())
    return results


def _run_here(
    work: Sequence[tuple[Cell, Path | None]], out: Path, tell: Callable[[CellResult], None]
) -> dict[Cell, CellResult]:
    done: dict[Cell, CellResult] = {}
    for cell, resume in work:
        done[cell] = run_cell(cell, out, resume)
        tell(done[cell])
    return done


def summary(results: Sequence[CellResult]) -> pd.DataFrame:
    """One row a cell and metric: model, dtype, task, metric, value, low, high, n, run, problem, undefined (why)."""
    rows: list[dict[str, Any]] = []
    for result in results:
        base = {"model": result.cell.model.name, "dtype": result.cell.model.dtype, "task": result.cell.task}
        if result.run is None:
            rows.append({**base, "problem": result.problem})
            continue
        run = Run.open(result.run)
        base = {**base, "dtype": run.record.model["dtype"]}
        for task, metrics in run.results.items():
            for metric, e in metrics.items():
                numbers = {
                    "value": e.value,
                    "low": e.low,
                    "high": e.high,
                    "undefined": e.undefined or "",
                    "n": e.n,
                }
                rows.append({**base, "task": task, "metric": metric, **numbers, "run": run.path.name})
    columns = ["model", "dtype", "task", "metric", "value", "low", "high", "n", "run", "problem", "undefined"]
    return pd.DataFrame(rows, columns=columns)
