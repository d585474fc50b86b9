"""The runs folder as pages see it: nothing outside it, nothing too large read whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from uuid import uuid4

import pandas as pd

from workbench.choices import DEFAULT_DTYPE
from workbench.errors import RunError, WorkbenchError
from workbench.models import local_path
from workbench.models.function_names import is_function_name
from workbench.paths import is_inside, user_path
from workbench.runs import Run, RunSummary, default_root, list_runs

__all__ = [
    "EXAMPLE",
    "FOLDERS_VARIABLE",
    "MODELS_VARIABLE",
    "PRECISION",
    "allowed_model",
    "allowed_path",
    "delete_run",
    "first_examples",
    "folder_bytes",
    "open_run",
    "runs_folder",
    "stored_runs",
]

FOLDERS_VARIABLE = "WORKBENCH_DASHBOARD_FOLDERS"
"""Environment variable with further folders that pages may read, one a line: ``workbench dashboard --folder``."""

MODELS_VARIABLE = "WORKBENCH_DASHBOARD_MODELS"
"""Environment variable with further models, one a line: ``workbench dashboard --model``."""

PRECISION = DEFAULT_DTYPE
"""Of every model that a page loads, or a job that it starts: one number has one precision wherever it is made."""

EXAMPLE = Path(__file__).parent / "example"
"""A run that comes with the package, shown while the runs folder has none."""

LARGEST = 200 * 2**20
"""Bytes of a run's folder that a page reads whole."""


def runs_folder() -> Path:
    """Where the runs lie: ``WORKBENCH_RUNS``, or ``runs`` in the folder that the dashboard started in."""
    return default_root().absolute()


def stored_runs() -> list[RunSummary]:
    """The runs in the folder, newest first, links out of it left out; the example where there are none.

    Raises :class:`~workbench.errors.RunError` if the folder cannot be read.
    """
    return _inside(runs_folder()) or _inside(EXAMPLE)


def _inside(root: Path) -> list[RunSummary]:
    return [run for run in list_runs(root) if run.path.resolve().parent == root.resolve()][::-1]


def open_run(name: str) -> Run:
    """A listed run by its name; raises :class:`~workbench.errors.RunError` for any other, or a broken one."""
    found = next((run for run in stored_runs() if run.id == name), None)
    if found is None:
        raise RunError(f"there is no run {name} in the runs folder; it may have been deleted")
    return Run.open(found.path)


def folder_bytes(folder: Path) -> int:
    """Size of all files below ``folder``; what vanishes meanwhile counts nothing."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += (Path(place) / name).stat(follow_symlinks=False).st_size
            except OSError:
                continue
    return total


def first_examples(run: Run, count: int) -> tuple[pd.DataFrame, int]:
    """The first ``count`` examples and how many there are.

    Raises :class:`~workbench.errors.RunError` if they cannot be read.
    """
    found = run.examples()
    return found.head(count), len(found)


def delete_run(name: str) -> None:
    """Remove a run of the runs folder; raises :class:`~workbench.errors.RunError` if it is gone already."""
    found = next((run for run in _inside(runs_folder()) if run.id == name), None)
    if found is None:
        raise RunError(f"{name} is not there any more; someone else deleted it")
    aside = found.path.with_name(f".deleted-{uuid4().hex}")
    try:
        found.path.rename(aside)  # of two who delete one run, one gets here
    except FileNotFoundError:
        raise RunError(f"{name} is not there any more; someone else deleted it") from None
    except OSError as error:
        raise RunError(f"cannot delete {name}: {error.strerror or error}") from error
    shutil.rmtree(aside, ignore_errors=True)


def allowed_path(name: str) -> Path:
    """A path that a page may read: below where the dashboard started, the runs, or ``--folder``, links followed.

    Raises :class:`~workbench.errors.WorkbenchError` for any other.
    """
    given = [Path(line) for line in os.environ.get(FOLDERS_VARIABLE, "").splitlines() if line]
    roots = [folder.resolve() for folder in (Path.cwd(), runs_folder(), *given)]
    path = user_path(name)
    if not is_inside(path, roots):
        listed = ", ".join(map(str, dict.fromkeys(roots)))
        raise WorkbenchError(
            f"{name} lies outside the folders that this dashboard reads: {listed}; add one with --folder"
        )
    return path.resolve()


def allowed_model(name: str) -> None:
    """Raise :class:`~workbench.errors.WorkbenchError` if loading ``name`` would read what a page may not.

    The models that the dashboard was started with may lie anywhere. A function is refused wherever it is named:
    opening it would run its module.
    """
    if is_function_name(name):
        raise WorkbenchError(
            f"{name} names a function, which pages do not import; run it on the command line: "
            f"workbench check {name} --suite NAME"
        )
    if name in os.environ.get(MODELS_VARIABLE, "").splitlines():
        return
    path = local_path(name)
    if path is not None:
        allowed_path(str(path))
