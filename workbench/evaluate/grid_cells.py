"""One model on one task of a grid: its run folder, found or made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.choices import DEFAULT_DTYPE
from workbench.errors import WorkbenchError
from workbench.evaluate._runner import evaluate
from workbench.evaluate._settings import EvaluateSettings
from workbench.models import LoadedModel, load
from workbench.records import check_fields
from workbench.runs import Run, RunState, list_runs

__all__ = ["Cell", "CellResult", "ModelChoice", "run_cell", "stored_run"]


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

    def holds(self, run: Run) -> bool:
        """Whether ``run`` was made for this cell: model, precision where one is asked for, and settings."""
        model, recipe = run.record.model, run.record.recipe
        asked = {"name": self.model.name, "revision": self.model.revision}
        if self.model.dtype != "auto":
            asked["dtype"] = self.model.dtype
        wanted = {name: value for name, value in self.settings.to_dict().items() if name != "data_dir"}
        return all(model.get(k) == v for k, v in asked.items()) and all(
            recipe.get(k) == v for k, v in wanted.items()
        )


@dataclass(frozen=True)
class CellResult:
    """Where a cell's run lies, or what kept it from being run."""

    cell: Cell
    run: Path | None = None
    problem: str = ""


def stored_run(cell: Cell, out: Path) -> Run | None:
    """The cell's run under ``out``: a finished one if there is, else one that was cut short."""
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
