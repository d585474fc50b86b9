"""Many models on many tasks: one run folder a cell, resumable, and a summary table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from workbench.choices import DEFAULT_DTYPE
from workbench.errors import ConfigError, WorkbenchError, did_you_mean, needs_extra
from workbench.evaluate._evaluate import evaluate
from workbench.evaluate._names import expand, find_task
from workbench.evaluate._settings import EvaluateSettings
from workbench.evaluate.tasks.task_file import is_task_file
from workbench.models import LoadedModel, load
from workbench.models.device import resolve_device
from workbench.records import check_fields, check_value
from workbench.runs import Run, RunState, list_runs, make_folder, write_atomically
from workbench.yaml_reader import read_values

__all__ = [
    "Cell",
    "CellResult",
    "Grid",
    "ModelChoice",
    "read_grid",
    "run_cell",
    "run_grid",
    "run_on_ray",
    "stored_run",
    "summary",
]


@dataclass(frozen=True)
class ModelChoice:
    """A model and how it is loaded; see :func:`workbench.load`."""

    name: str
    revision: str | None = None
    dtype: str = DEFAULT_DTYPE
    device: str = "auto"
    implementation: str = "hf"

    def __post_init__(self) -> None:
        check_fields(self, "model ")

    def load(self) -> LoadedModel:
        """The model."""
        return load(
            self.name,
            revision=self.revision,
            dtype=self.dtype,
            device=self.device,
            implementation=self.implementation,
        )


@dataclass(frozen=True)
class Cell:
    """One model on one task, with ``batch_tokens`` and the self-check (``doctor``) as the grid says."""

    model: ModelChoice
    settings: EvaluateSettings
    batch_tokens: str | int = "auto"
    doctor: bool = False

    @property
    def task(self) -> str:
        """The task."""
        return self.settings.tasks[0]

    @cached_property
    def versions(self) -> dict[str, int]:
        """The task's version by its short name, as a run's recipe has it."""
        task = find_task(self.task, self.settings.options)
        return {task.name: task.version}

    def holds(self, run: Run) -> bool:
        """Whether ``run`` was made for this cell: model, precision and device where they are named, task and settings.

        A task of the user's own is another one where its name is written differently, or its file has changed.
        """
        model, recipe = run.record.model, run.record.recipe_in_force
        chosen = self.model
        loaded = {"name": chosen.name, "revision": chosen.revision, "implementation": chosen.implementation}
        if chosen.dtype != "auto":
            loaded["dtype"] = chosen.dtype
        if chosen.device != "auto" and not _is_on(chosen.device, str(run.record.device.get("type"))):
            return False
        wanted = {name: value for name, value in self.settings.to_dict().items() if name != "data_dir"}
        wanted["versions"] = self.versions
        return all(model.get(k) == v for k, v in loaded.items()) and all(
            recipe.get(k) == v for k, v in wanted.items()
        )


def _is_on(device: str, stored: str) -> bool:
    """Whether a run on ``stored`` was on ``device``: "cuda" is any GPU, "cuda:1" only that one."""
    try:
        wanted, found = torch.device(device), torch.device(stored)
    except RuntimeError:
        return False
    return wanted.type == found.type and wanted.index in (None, found.index)


@dataclass(frozen=True)
class CellResult:
    """Where a cell's run lies, or what kept it from being run."""

    cell: Cell
    run: Path | None = None
    problem: str = ""


def stored_run(cell: Cell, out: Path) -> Run | None:
    """The cell's run under ``out``: a finished one if there is, else an interrupted one."""
    runs = [Run.open(found.path) for found in list_runs(out) if found.state is not RunState.UNREADABLE]
    mine = [run for run in runs if run.record.verb == "evaluate" and cell.holds(run)]
    return max(mine, key=lambda run: run.complete, default=None)


# The model that this process used last: cells come ordered by model, so each is loaded once.
_LOADED: dict[ModelChoice, LoadedModel] = {}


def run_cell(cell: Cell, out: Path, resume: Path | None = None) -> CellResult:
    """Run one cell in this process; a user's mistake becomes the cell's problem."""
    try:
        if cell.model not in _LOADED:
            _LOADED.clear()
            _LOADED[cell.model] = cell.model.load()
        run = evaluate(
            _LOADED[cell.model],
            cell.settings,
            out=out,
            resume=resume,
            batch_tokens=cell.batch_tokens,
            doctor=cell.doctor,
        )
    except WorkbenchError as error:
        return CellResult(cell, problem=" ".join(str(error).split()))
    return CellResult(cell, run.path)


_SETTINGS = tuple(f.name for f in fields(EvaluateSettings) if f.name != "tasks")
_LOADING = ("dtype", "device", "implementation")


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


def read_grid(path: Path, **loading: str | None) -> Grid:
    """Read a YAML file that lists models and tasks.

    ``models`` are names, or mappings with ``name``, ``dtype``, ``device``, ``revision``, ...; ``tasks`` are names or
    groups. Beside them stand any settings of an evaluation, ``batch_tokens``, ``doctor``, and the ``dtype``, ``device``
    and ``implementation`` of the models that name none; ``loading`` comes before what the file says of all. Raises
    :class:`~workbench.errors.ConfigError` naming the field, and :class:`~workbench.errors.TaskError` for an
    unknown task, before anything is run.
    """
    content = read_values(path)
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} must hold a mapping with models and tasks, holds a {type(content).__name__}"
        )
    known = ["models", "tasks", "batch_tokens", "doctor", *_LOADING, *_SETTINGS]
    for name in content:
        if name not in known:
            raise ConfigError(f"{path}: unknown field {name!r}; {did_you_mean(str(name), known)}")
    models, tasks = (_listed(content, name, path) for name in ("models", "tasks"))
    if not all(isinstance(task, str) for task in tasks):
        raise ConfigError(f"{path}: tasks are {tasks!r:.60}; allowed: a list of names")
    settings = {name: content[name] for name in _SETTINGS if name in content}
    shared = {name: content[name] for name in _LOADING if name in content}
    shared |= {name: value for name, value in loading.items() if value is not None}
    check_value("batch_tokens", content.get("batch_tokens", "auto"), str | int)
    check_value("doctor", content.get("doctor", False), bool)
    grid = Grid(
        models=tuple(_model(entry, path, shared) for entry in models),
        tasks=_cell_tasks(tasks),
        settings=settings,
        batch_tokens=content.get("batch_tokens", "auto"),
        doctor=content.get("doctor", False),
    )
    for cell in grid.cells():
        find_task(cell.task, cell.settings.options)
    return grid


def _cell_tasks(names: Sequence[str]) -> tuple[str, ...]:
    """Single tasks, each once; those of files and of the hub as they are written, as workers read them anew."""
    expand(names)  # raises for unknown names, and for two tasks of one name
    found = (one for name in names for one in ([name] if is_task_file(name) else expand([name])))
    return tuple(dict.fromkeys(found))


def _listed(content: Mapping[str, Any], name: str, path: Path) -> list[Any]:
    value = content.get(name)
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{path}: {name} is {value!r:.60}; allowed: a list of one or more")
    return value


def _model(entry: Any, path: Path, shared: Mapping[str, Any]) -> ModelChoice:
    if isinstance(entry, str):
        entry = {"name": entry}
    known = [f.name for f in fields(ModelChoice)]
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ConfigError(f"{path}: a model is {entry!r:.80}; allowed: a name, or a mapping with a name")
    for name in entry:
        if name not in known:
            raise ConfigError(f"{path}: model field {name!r} is unknown; {did_you_mean(str(name), known)}")
    return ModelChoice(**{name: value for name, value in {**shared, **entry}.items() if value is not None})


def run_grid(
    grid: Grid,
    out: Path,
    *,
    engine: str = "local",
    workers: int = 2,
    address: str | None = None,
    tell: Callable[[CellResult], None] = lambda result: None,
) -> tuple[CellResult, ...]:
    """Run every cell that has no finished run under ``out`` yet; go on with interrupted ones.

    ``engine`` is "local" (one after another, each model loaded once) or "ray" (a Ray cluster at ``address``, or
    ``workers`` processes of this machine; all machines must reach ``out``). A cell that fails keeps its problem and the
    others go on. The table is written to ``out/summary.csv``.
    """
    if engine not in ("local", "ray"):
        raise ConfigError(f"engine is {engine!r}; allowed: local, ray")
    cells = grid.cells()
    found = {cell: stored_run(cell, out) for cell in cells}
    finished = {cell: CellResult(cell, run.path) for cell, run in found.items() if run and run.complete}
    cut_short = {cell: run.path for cell, run in found.items() if run and not run.complete}
    work = [(cell, cut_short.get(cell)) for cell in cells if cell not in finished]
    if engine == "local":  # machines of a cluster may have what this one has not
        for device in {cell.model.device for cell, _ in work}:
            resolve_device(device)
    make_folder(out)
    for result in finished.values():
        tell(result)
    if engine == "ray":
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
    """One row a cell and metric: model, dtype, device, task, metric, value, low, high, n, run, problem, undefined."""
    rows: list[dict[str, Any]] = []
    for result in results:
        chosen = result.cell.model
        base: dict[str, Any] = {
            "model": chosen.name,
            "dtype": chosen.dtype,
            "device": chosen.device,
            "task": result.cell.task,
        }
        if result.run is None:
            rows.append({**base, "problem": result.problem})
            continue
        run = Run.open(result.run)
        base = {**base, "dtype": run.record.model["dtype"], "device": run.record.device.get("type")}
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
    about = ["model", "dtype", "device", "task"]
    columns = [*about, "metric", "value", "low", "high", "n", "run", "problem", "undefined"]
    return pd.DataFrame(rows, columns=columns)


# Cells pass through Ray's object store as a few hundred bytes; the smallest store it accepts is plenty.
_STORE_BYTES = 80 * 2**20


def run_on_ray(
    work: Sequence[tuple[Cell, Path | None]],
    out: Path,
    workers: int,
    address: str | None,
    tell: Callable[[CellResult], None],
) -> dict[Cell, CellResult]:
    """Run cells side by side. A Ray that runs already is used and left running; one started here is stopped.

    A worker that dies (out of memory, a lost machine) is tried once more, going on where its run folder ends.
    Raises :class:`~workbench.errors.ConfigError` where Ray is not installed or the cluster does not answer.
    """
    if find_spec("ray") is None:
        raise ConfigError(needs_extra("--engine ray", "ray", "ray"))
    if not work:
        return {}
    import ray

    own = not ray.is_initialized()
    if own:
        _start(ray, workers, address)
    try:
        return _collect(ray, work, out.resolve(), workers, tell)
    finally:
        if own:
            ray.shutdown()


def _start(ray: Any, workers: int, address: str | None) -> None:
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    if address is None:
        options |= {"num_cpus": workers, "object_store_memory": _STORE_BYTES}
    else:
        options = {"address": address, "log_to_driver": False, "configure_logging": False}
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"cannot use the Ray cluster at {address or 'this machine'}: {error}") from error


def _collect(
    ray: Any,
    work: Sequence[tuple[Cell, Path | None]],
    out: Path,
    workers: int,
    tell: Callable[[CellResult], None],
) -> dict[Cell, CellResult]:
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=1)(_on_worker)
    waiting = {
        remote.remote(cell, str(out), None if resume is None else str(resume.resolve())): cell
        for cell, resume in work
    }
    done: dict[Cell, CellResult] = {}
    while waiting:
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        cell = waiting.pop(ready)
        try:
            done[cell] = ray.get(ready)
        except ray.exceptions.RayError as error:
            done[cell] = CellResult(cell, problem=f"the worker failed: {' '.join(str(error).split())[-200:]}")
        tell(done[cell])
    return done


def _on_worker(cell: Cell, out: str, resume: str | None) -> CellResult:
    """What a worker runs: one cell, on one thread, as it may share its machine with others."""
    torch.set_num_threads(1)
    folder = Path(out)
    # On a second try the first one's run folder is there.
    found = stored_run(cell, folder) if resume is None else None
    return run_cell(cell, folder, found.path if found else Path(resume) if resume else None)
