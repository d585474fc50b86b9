"""Runs: those stored in the runs folder; one of them opened, with its figures and its report; or deleted."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from workbench.dashboard.show import extras, frame, plain, show_table, show_view, theme
from workbench.dashboard.store import (
    EXAMPLE,
    LARGEST,
    delete_run,
    first_examples,
    folder_bytes,
    open_run,
    runs_folder,
    stored_runs,
)
from workbench.errors import RunError, WorkbenchError
from workbench.figures.frames import table_view
from workbench.figures.stored import survey_figures
from workbench.report import render_report
from workbench.runs import Run, RunSummary

__all__ = ["results_table", "runs_page"]

_ROWS = 500  # examples shown


def runs_page() -> None:
    """The list of runs, and the one that is chosen."""
    st.title("Runs")
    asked = st.query_params.get("run")
    try:
        runs = stored_runs()
    except RunError as error:
        st.error(plain(str(error)))
        return
    names = [run.id for run in runs]
    _say(asked, names)
    if not runs:
        st.info(
            f"No runs in {plain(str(runs_folder()))} yet. Make one: `workbench evaluate MODEL --task lambada_sample`"
        )
        return
    folder = f"Path({str(runs_folder())!r})"
    code = f"from pathlib import Path\nfrom workbench.runs import list_runs\n\nlist_runs({folder})\n"
    show_table(pd.DataFrame([_row(run) for run in runs]), "runs", "Runs", code)
    if runs[0].path.parent == EXAMPLE:
        st.caption("These examples come with the package; runs of your own will take their place.")
    if st.session_state.get("run") not in names:
        st.session_state.pop("run", None)  # it was deleted meanwhile
    chosen = st.selectbox(
        "Open", names, index=None, key="run", bind="query-params", placeholder="Choose a run"
    )
    if chosen is not None:
        _open(chosen)


def _say(asked: str | None, names: list[str]) -> None:
    """What became of a link or a deletion."""
    deleted = st.session_state.pop("deletion", None)
    if deleted is not None:
        problem, said = deleted
        (st.error if problem else st.success)(plain(said))
    elif asked and asked not in names:
        st.error(f"There is no run {plain(asked)} in the runs folder.")


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


def _open(name: str) -> None:
    st.subheader(plain(name))
    try:
        run = open_run(name)
        _show(run)
    except WorkbenchError as error:
        st.error(plain(str(error)))
    if (runs_folder() / name).is_dir():
        with st.popover("Delete this run", icon=":material/delete:"):
            st.write("The folder is removed for good.")
            st.button("Delete", on_click=_delete, args=(name,), type="primary")


def _delete(name: str) -> None:
    try:
        delete_run(name)
    except RunError as error:
        st.session_state["deletion"] = (True, str(error))
    else:
        st.session_state["deletion"] = (False, f"{name} was deleted.")
    st.session_state.pop("run", None)


def _show(run: Run) -> None:
    if not run.complete:
        st.warning("This run is not finished; what it has so far is shown.")
    size = folder_bytes(run.path)
    if size > LARGEST:
        st.warning(
            f"This run has {size / 2**20:,.0f} MB; figures and report are left out here. "
            f"Write them with `workbench report {plain(run.path.name)}`."
        )
    else:
        _figures(run)
    code = f"from workbench.runs import Run\n\nrun = Run.open({str(run.path)!r})\n"
    if run.results:
        show_table(results_table(run), f"results {run.path.name}", "Results", f"{code}run.results\n")
    head, count = first_examples(run, _ROWS)
    with st.expander(f"Examples ({count:,})"):
        if count > _ROWS:
            st.caption(f"The first {_ROWS} are shown and downloaded; all are in examples.parquet.")
        st.dataframe(head, hide_index=True, width="stretch", alt="Examples")
        extras(table_view(head, title="Examples"), f"examples {run.path.name}", f"{code}run.examples()\n")
    with st.expander("Recipe"):
        st.json({"recipe": run.record.recipe, "model": run.record.model, "data": run.record.data})
    if size <= LARGEST:
        _report(run)


def results_table(run: Run) -> pd.DataFrame:
    """One row per task and metric, with its interval."""
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
                "undefined": estimate.undefined or "",
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
    code = (
        "from workbench.figures.stored import survey_figures\nfrom workbench.runs import Run\n\n"
        f"survey_figures(Run.open({str(run.path)!r}))[{name!r}]\n"
    )
    show_view(figures[name], name.strip("[]").replace(" ", "-"), code)


def _report(run: Run) -> None:
    if not st.toggle("Report", key="report", bind="query-params", help="The whole run as one page."):
        return
    page = render_report(run)
    st.download_button(
        "Download the report", page, file_name=f"{run.path.name}.html", mime="text/html", on_click="ignore"
    )
    frame(page, 900, f"Report of {run.path.name}", "report")
