"""The reading side: one run, or the list of all runs in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, wraps
from html import escape
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pandas as pd

from workbench.drawn import Drawn
from workbench.errors import RunError, WorkbenchError
from workbench.estimate import Estimate
from workbench.runs import _chunks
from workbench.runs._files import default_root, find_run, read_arrays, read_verified
from workbench.runs._folder import same_work
from workbench.runs._record import ARRAYS, EXAMPLES, SCHEMA_VERSION, RunRecord
from workbench.shapes import Array

__all__ = [
    "Run",
    "RunState",
    "RunSummary",
    "as_run",
    "list_runs",
    "reads_runs",
    "shape_checked",
    "stored_work",
]

Results = dict[str, dict[str, Estimate]]


@dataclass(frozen=True, repr=False)
class Run(Drawn):
    """A stored run; ``results`` and ``throughput`` are empty while it is not ``complete``.

    ``digests`` holds the SHA-256 of the other files of a complete run by their names; runs of before there
    were any have none. ``verified``: both JSON files are as they were written; see :func:`reads_runs`.
    """

    drawn_by = "results_plot"

    path: Path
    record: RunRecord
    results: Results = field(default_factory=dict)
    throughput: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    complete: bool = False
    digests: dict[str, str] = field(default_factory=dict)
    verified: bool = False

    @classmethod
    def open(cls, path: str | Path, root: Path | None = None) -> Run:
        """Read a run given by path, or by id under ``root`` (default ``runs/`` or ``WORKBENCH_RUNS``).

        Raises :class:`~workbench.errors.RunError` if it is missing, damaged or of another schema version.
        """
        folder = find_run(path, root)
        record, verified = RunRecord.read_verified(folder)
        stored = folder / "results.json"
        if not stored.is_file():
            return cls(folder, record, verified=verified)
        content, also = read_verified(stored, SCHEMA_VERSION)
        parts = {name: content.get(name, {}) for name in ("throughput", "notes", "files")}
        wrong = [name for name, part in parts.items() if not isinstance(part, dict)]
        if wrong:
            raise RunError(f"{stored}: {wrong[0]} must be an object, is {parts[wrong[0]]!r:.60}")
        try:
            results = {
                task: {metric: Estimate.from_dict(values) for metric, values in metrics.items()}
                for task, metrics in content["results"].items()
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RunError(f"{stored} does not hold task -> metric -> estimate: {error}") from error
        return cls(
            path=folder,
            record=record,
            results=results,
            throughput=parts["throughput"],
            notes=parts["notes"],
            complete=True,
            digests=parts["files"],
            verified=verified and also,
        )

    def to_frame(self) -> pd.DataFrame:
        """The results, one row a metric: task, metric, value, standard error, interval, n, why it is undefined."""
        columns = ("value", "standard_error", "low", "high", "n", "undefined")
        return pd.DataFrame(
            [
                (task, metric, *(getattr(estimate, name) for name in columns))
                for task, metrics in self.results.items()
                for metric, estimate in metrics.items()
            ],
            columns=["task", "metric", *columns],
        )

    def __repr__(self) -> str:
        found = [
            f"{task} {name} {e}" for task, metrics in self.results.items() for name, e in metrics.items()
        ]
        state = "; ".join(found[:3]) + ("; …" if len(found) > 3 else "") if self.complete else "unfinished"
        return f"<Run {self.record.id}: {state}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_frame().to_html(index=False)}"

    def examples(self) -> pd.DataFrame:
        """One row per example, in item order; of an unfinished run, those stored so far.

        Raises :class:`~workbench.errors.RunError` for files that are missing or damaged.
        """
        merged, chunks = self.path / EXAMPLES, self.path / "chunks"
        if self.complete or not chunks.is_dir():
            return _chunks.read_table(merged, self.digests.get(EXAMPLES)).to_pandas()
        return _chunks.merge(chunks).to_pandas()

    def arrays(self) -> dict[str, Array]:
        """The named arrays of ``arrays.safetensors``; empty if the run stored none.

        Raises :class:`~workbench.errors.RunError` for a file that is missing or damaged.
        """
        path = self.path / ARRAYS
        return read_arrays(path, self.digests.get(ARRAYS)) if ARRAYS in self.digests or path.is_file() else {}


def as_run(run: Run | str | Path) -> Run:
    """``run`` itself, or the stored run of that id or folder."""
    return run if isinstance(run, Run) else Run.open(run)


class RunState(StrEnum):
    """What a folder among the runs turned out to be."""

    COMPLETE = "complete"
    UNFINISHED = "unfinished"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class RunSummary:
    """One line of ``workbench runs``; ``problem`` says why a folder is unreadable."""

    path: Path
    state: RunState
    record: RunRecord | None = None
    results: Results = field(default_factory=dict)
    problem: str = ""

    @cached_property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name


def list_runs(root: Path | None = None) -> list[RunSummary]:
    """All folders under ``root`` in order of name, that is of time, with foreign ones listed as unreadable.

    A root that does not exist has no runs. Raises :class:`~workbench.errors.RunError` if it is unreadable.

    Example:
        ```python
        import workbench

        workbench.evaluate("novels-decoder", tasks="lambada_sample", limit=5, doctor=False)
        for found in workbench.runs.list_runs():
            print(found.id, found.state)
        ```
    """
    root = Path(root) if root is not None else default_root()
    try:
        if not root.exists():
            return []
        folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError as error:
        raise RunError(f"cannot list {root}: {error.strerror or error}") from error
    return [_summary(folder) for folder in folders]


def stored_work(record: RunRecord, root: Path | None = None) -> Path | None:
    """The last run under ``root`` of the verb, recipe, model and data of ``record``, finished or not."""
    for summary in reversed(list_runs(root)):
        if summary.record is not None and summary.record.verb == record.verb:
            try:
                same_work(summary.path, record.recipe, model=record.model, data=record.data)
            except RunError:
                continue
            return summary.path
    return None


def _summary(folder: Path) -> RunSummary:
    try:
        run = Run.open(folder)
    except RunError as error:
        return RunSummary(folder, RunState.UNREADABLE, problem=str(error))
    return RunSummary(
        folder, RunState.COMPLETE if run.complete else RunState.UNFINISHED, run.record, run.results
    )


P = ParamSpec("P")


T = TypeVar("T")


@contextmanager
def shape_checked(runs: Run | Sequence[Run]) -> Iterator[None]:
    """Errors while ``runs`` are read become one line, if one of them is not verified to be as it was written.

    What notes, recipes and examples hold is known to the verb that wrote them, and no schema says it. Of a run
    whose checksums match, an error is a defect of the reader and stays what it is.
    """
    several = [runs] if isinstance(runs, Run) else runs
    try:
        yield
    except WorkbenchError:
        raise
    except Exception as error:
        changed = [str(run.path) for run in several if not run.verified]
        if not changed:
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise RunError(
            f"{', '.join(changed)}: notes, recipe or examples are not of the shape that workbench writes ({said}); "
            "undo what was changed by hand, or run again"
        ) from error


def reads_runs(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose first argument is one stored run or several, with :func:`shape_checked` around it."""

    @wraps(function)
    def checked(*arguments: P.args, **options: P.kwargs) -> T:
        first: Any = arguments[0] if arguments else options.get("runs", options.get("run", ()))
        with shape_checked(first):
            return function(*arguments, **options)

    return checked
