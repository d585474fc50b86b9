"""Challenge sets: results by capability and test, failing cases and why, and checks to run."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from workbench.dashboard.challenge_editor import editor
from workbench.dashboard.challenge_results import show_check
from workbench.dashboard.jobs_panel import start_job
from workbench.dashboard.resources import models_on_offer
from workbench.dashboard.show import plain, show_table
from workbench.dashboard.store import allowed_path, open_run, stored_runs
from workbench.errors import RunError, WorkbenchError

__all__ = ["challenge_page"]

_PARTS = ("results", "run", "write a template")


def challenge_page() -> None:
    """The stored checks; a form for another; an editor that runs live."""
    st.title("Challenge sets")
    part = st.segmented_control(
        "Part",
        _PARTS,
        default="results",
        required=True,
        key="part",
        bind="query-params",
        label_visibility="collapsed",
    )
    if part == "run":
        _form()
    elif part == "write a template":
        editor()
    else:
        _results()


def _results() -> None:
    try:
        runs = [run for run in stored_runs() if run.record is not None and run.record.verb == "check"]
    except RunError as error:
        st.error(plain(str(error)))
        return
    if not runs:
        st.info("No check is stored yet. Choose a set under *run*, or write a template of your own.")
        return
    name = st.selectbox("Open", [run.id for run in runs], key="check", bind="query-params")
    try:
        show_check(open_run(name))
    except WorkbenchError as error:
        st.error(plain(str(error)))


def _form() -> None:
    from challenge_sets import SETS
    from challenge_sets.suite import suite_names

    label = st.session_state.get("model")
    if label is None:
        return
    suites, sets = suite_names(), SETS.names()
    with st.form("check", border=False):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            chosen = st.selectbox("Suite or set", [*suites, *sets], key="check name")
            limit = st.number_input("Cases a test", 1, 10_000, 20, key="check limit", width=140)
        data = st.text_input(
            "Folder with the set's files (not for suites and built-in pairs)", key="check data"
        )
        if st.form_submit_button("Run", type="primary"):
            try:
                folder = [f"--data-dir={allowed_path(data.strip())}"] if data.strip() else []
            except WorkbenchError as error:
                st.error(plain(str(error)))
                return
            which = f"--suite={chosen}" if chosen in suites else f"--set={chosen}"
            options = [which, f"--limit-per-paradigm={int(limit)}", *folder]
            start_job(f"check {chosen} on {label}", "check", options, models_on_offer()[label])
            st.rerun()
    about = [{"name": n, "about": SETS.get(n).about} for n in sets]
    with st.expander("What the sets are"):
        show_table(
            pd.DataFrame(about), "sets", "Challenge sets", "from challenge_sets import SETS\n\nSETS.names()\n"
        )
