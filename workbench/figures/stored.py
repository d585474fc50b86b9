"""The figures of a stored survey of attention, drawn from its run alone."""

from __future__ import annotations

import pandas as pd

from workbench.analysis.head_clusters import head_clusters_of
from workbench.analysis.heads_over_steps import head_statistics_of
from workbench.figures._view import View
from workbench.figures.matrix import head_clusters_view, head_statistics_grid
from workbench.figures.table import dependency_table
from workbench.runs import Run, reads_runs

__all__ = ["dependency_frame", "survey_figures"]


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
    groups = head_clusters_of(run)
    if groups is not None:
        figures["head clusters"] = head_clusters_view(groups, display_mode=display_mode)
    return figures
