"""Evaluation: runs beside one another, two compared item by item, slices, calibration, single examples."""

from __future__ import annotations

import streamlit as st

from workbench.dashboard.evaluation_parts import calibration_part, compare_part, leaderboard_part, slices_part
from workbench.dashboard.example_browser import examples_part
from workbench.dashboard.jobs_panel import start_job
from workbench.dashboard.resources import models_on_offer
from workbench.dashboard.show import plain
from workbench.dashboard.store import allowed_path, stored_runs
from workbench.errors import RunError, WorkbenchError
from workbench.runs import RunState, RunSummary

__all__ = ["evaluation_page"]

_VERBS = ("evaluate", "check")
_PARTS = {
    "leaderboard": leaderboard_part,
    "compare": compare_part,
    "slices": slices_part,
    "calibration": calibration_part,
    "examples": examples_part,
}


def evaluation_page() -> None:
    """The chosen part over all finished evaluations and checks, or a form that starts one."""
    st.title("Evaluation")
    part = st.segmented_control(
        "Part",
        [*_PARTS, "run"],
        default="leaderboard",
        required=True,
        key="evaluation",
        bind="query-params",
        label_visibility="collapsed",
    )
    if part == "run":
        _form()
        return
    try:
        runs = _finished(stored_runs())
    except RunError as error:
        st.error(plain(str(error)))
        return
    if not runs:
        st.info("No finished evaluation is stored yet. Start one under *run*.")
        return
    try:
        _PARTS[part or "leaderboard"](runs)
    except WorkbenchError as error:
        st.error(plain(str(error)))


def _finished(runs: list[RunSummary]) -> list[RunSummary]:
    return [
        r for r in runs if r.state is RunState.COMPLETE and r.record and r.record.verb in _VERBS and r.results
    ]


def _form() -> None:
    from workbench.evaluate import TASKS

    label = st.session_state.get("model")
    if label is None:
        return
    with st.form("evaluate", border=False):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            names = TASKS.names()
            first = names.index("lambada_sample") if "lambada_sample" in names else 0
            task = st.selectbox("Task", names, index=first, key="evaluate task")
            limit = st.number_input("Items at most", 1, 100_000, 100, key="evaluate limit", width=140)
        data = st.text_input("Folder with the task's files (not for bundled samples)", key="evaluate data")
        if st.form_submit_button("Run", type="primary"):
            try:
                folder = [f"--data-dir={allowed_path(data.strip())}"] if data.strip() else []
            except WorkbenchError as error:
                st.error(plain(str(error)))
                return
            options = [f"--task={task}", f"--limit={int(limit)}", *folder]
            start_job(f"evaluate {task} on {label}", "evaluate", options, models_on_offer()[label])
            st.rerun()
