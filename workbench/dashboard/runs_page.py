"""Runs: those stored in the runs folder; one of them opened, with its figures and its report."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from workbench.dashboard.resources import runs_folder
from workbench.dashboard.show import frame, plain, show_view, theme
from workbench.errors import RunError
from workbench.figures.stored import survey_figures
from workbench.report import render_report
from workbench.runs import Run, RunSummary, list_runs

__all__ = ["runs_page"]

_ROWS = 500  # examples shown


def runs_page() -> None:
    """The list of runs, and the one that is chosen."""
    st.title("Runs")
    root = runs_folder()
    asked = st.query_params.get("run")
    try:
        runs = [run for run in list_runs(root) if run.path.resolve().parent == root.resolve()][::-1]
    except RunError as error:
        st.error(plain(str(error)))
        return
    names = [run.id for run in runs]
    if asked and asked not in names:
        st.error(f"There is no run {plain(asked)} in the runs folder.")
    if not runs:
        st.info(
            f"No runs in {plain(str(root))} yet. Make one: `workbench evaluate MODEL --task lambada_sample`"
        )
        return
    st.dataframe(_table(runs), hide_index=True, width="stretch")
    chosen = st.selectbox(
        "Open", names, index=None, key="run", bind="query-params", placeholder="Choose a run"
    )
    if chosen is not None:
        _open(runs[names.index(chosen)])


def _table(runs: list[RunSummary]) -> pd.DataFrame:
    return pd.DataFrame([_row(run) for run in runs])


def _row(run: RunSummary) -> dict[str, str]:
    record = run.record
    numbers = [
        f"{task} {metric} {estimate}"
        for task, found in run.results.items()
        for metric, estimate in found.items()
    ]
    more = f" … and {len(numbers) - 2} more" if len(numbers) > 2 else ""
    return {
        "run": run.id,
        "state": str(run.state),
        "verb": record.verb if record else "",
        "model": str(record.model.get("name", "")) if record else "",
        "doctor": str((record.doctor or {}).get("verdict", "")) if record else "",
        "results": run.problem or "; ".join(numbers[:2]) + more,
    }


def _open(summary: RunSummary) -> None:
    try:
        run = Run.open(summary.path)
        examples = run.examples()
    except RunError as error:
        st.error(plain(str(error)))
        return
    st.subheader(plain(summary.id))
    if not run.complete:
        st.warning("This run is not finished; what it has so far is shown.")
    _figures(run)
    if run.results:
        st.dataframe(_results(run), hide_index=True, width="stretch")
    with st.expander(f"Examples ({len(examples):,})"):
        st.dataframe(examples.head(_ROWS), hide_index=True, width="stretch")
    with st.expander("Recipe"):
        st.json({"recipe": run.record.recipe, "model": run.record.model, "data": run.record.data})
    _report(run)


def _results(run: Run) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "task": task,
                "metric": metric,
                "value": estimate.value,
                "standard error": estimate.standard_error,
                "95 % low": estimate.low,
                "95 % high": estimate.high,
                "n": estimate.n,
            }
            for task, metrics in run.results.items()
            for metric, estimate in metrics.items()
        ]
    )


def _figures(run: Run) -> None:
    figures = survey_figures(run, theme())
    if not figures:
        return
    name = st.selectbox("Figure", list(figures), key="figure", bind="query-params")
    show_view(figures[name], name.strip("[]").replace(" ", "-"))


def _report(run: Run) -> None:
    if not st.toggle("Report", key="report", bind="query-params", help="The whole run as one page."):
        return
    page = render_report(run)
    st.download_button(
        "Download the report", page, file_name=f"{run.path.name}.html", mime="text/html", on_click="ignore"
    )
    frame(page, 900, f"Report of {run.path.name}")
