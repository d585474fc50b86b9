"""The figures of a stored survey of attention, drawn from its run alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from workbench.errors import DataError, did_you_mean
from workbench.figures._view import View
from workbench.figures.matrix import head_statistics_grid
from workbench.figures.table import dependency_table
from workbench.runs import Run, reads_runs
from workbench.statistics import Statistic

__all__ = ["dependency_frame", "head_statistics_of", "heads_over_steps", "statistic_of", "survey_figures"]


@reads_runs
def head_statistics_of(run: Run) -> dict[str, Statistic]:
    """The (layer, head) statistics that a run of ``workbench attend`` stored; empty for any other run."""
    arrays = run.arrays()
    return {
        name: Statistic(
            name=name,
            unit=about.get("unit", ""),
            values=arrays[name],
            axes=("layer", "head"),
            standard_error=arrays.get(f"{name} (standard error)"),
            note=about.get("note", ""),
        )
        for name, about in run.notes.get("statistics", {}).items()
        if name in arrays
    }


def heads_over_steps(runs: Mapping[int, Run], name: str) -> Statistic:
    """One statistic of every head at each training step, with axes ``step``, ``layer`` and ``head``.

    ``runs`` are those of ``workbench attend --corpus`` by step, of one model's checkpoints. Raises
    :class:`~workbench.errors.DataError` for a statistic that they do not hold.
    """
    steps = sorted(runs)
    found = [statistic_of(runs[step], name) for step in steps]
    errors = [statistic.standard_error for statistic in found]
    layers, heads = found[0].values.shape
    return Statistic(
        name=name,
        unit=found[0].unit,
        values=np.stack([statistic.values for statistic in found]),
        axes=("step", "layer", "head"),
        labels={"step": tuple(steps), "layer": tuple(range(layers)), "head": tuple(range(heads))},
        standard_error=None
        if any(e is None for e in errors)
        else np.stack([e for e in errors if e is not None]),
        note=found[0].note,
    )


def statistic_of(run: Run, name: str) -> Statistic:
    """The stored statistic of that name; raises :class:`~workbench.errors.DataError` where there is none."""
    found = head_statistics_of(run)
    if name not in found:
        raise DataError(f"no statistic {name!r} of heads in {run.path}; {did_you_mean(name, list(found))}")
    return found[name]


@reads_runs
def dependency_frame(run: Run) -> pd.DataFrame:
    """The columns of :func:`~workbench.figures.dependency_table` and the gain; empty without a treebank."""
    chosen = run.notes.get("best heads", {})
    tasks = {task.rpartition("/")[2]: metrics for task, metrics in run.results.items()}
    if not chosen or not {"dependency", "fixed offset", "gain"} <= set(tasks):
        return pd.DataFrame()
    rows = []
    for relation, accuracy in tasks["dependency"].items():
        best, baseline, gain = chosen[relation], tasks["fixed offset"][relation], tasks["gain"][relation]
        rows.append(
            {
                "relation": relation,
                "layer": best["layer"],
                "head": best["head"],
                "direction": best["direction"],
                "accuracy": accuracy.value,
                "low": accuracy.low,
                "high": accuracy.high,
                "baseline": baseline.value,
                "offset": best["offset"],
                "gain": gain.value,
                "gain low": gain.low,
                "gain high": gain.high,
                "count": best["words"],
                "undefined": accuracy.undefined or "",
                "gain undefined": gain.undefined or "",
            }
        )
    return pd.DataFrame(rows)


@reads_runs
def survey_figures(run: Run, display_mode: str = "auto") -> dict[str, View]:
    """The dependency table, where there is one, and a grid of heads for each statistic, by name."""
    figures: dict[str, View] = {}
    table = dependency_frame(run)
    if not table.empty:
        note = (
            "Head and offset were chosen on one half of the sentences; the numbers are from the other half."
        )
        figures["dependency heads"] = dependency_table(table, note=note, display_mode=display_mode)
    for name, statistic in head_statistics_of(run).items():
        figures[name] = head_statistics_grid(statistic, display_mode=display_mode)
    return figures
