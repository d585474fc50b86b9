"""The jobs on a page: progress, cancel, and the way to the run that a job stored."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from workbench.dashboard.jobs import Job, JobBoard, JobState
from workbench.dashboard.navigate import open_stored_run
from workbench.dashboard.show import plain
from workbench.dashboard.store import PRECISION, allowed_model, runs_folder
from workbench.errors import WorkbenchError

__all__ = ["board", "jobs_panel", "shown_below", "start_job"]


@st.cache_resource
def board() -> JobBoard:
    """The jobs of this dashboard, seen by everyone who uses it."""
    return JobBoard()


def start_job(title: str, verb: str, options: Sequence[str], *given: str, stores: bool = True) -> Job | None:
    """Start ``workbench VERB OPTIONS -- GIVEN``; its run goes to the runs folder if it ``stores`` one.

    The model, the first of what is ``given``, is one that pages may read, and loaded in the precision in which pages
    load theirs. What hinders it is shown in the panel.
    """
    ending = ["--", *given] if given else []
    folder = [f"--out={runs_folder()}"] if stores else []
    arguments = [verb, *folder, "--json", f"--dtype={PRECISION}", *options, *ending]
    try:
        for model in given[:1]:
            allowed_model(model)
        return board().start(title, arguments)
    except WorkbenchError as error:
        st.session_state["job problem"] = str(error)
        return None


def shown_below(job: Job) -> None:
    """Take a finished job off the panel, as the page shows what it found."""
    if job in board().jobs:
        board().dismiss(job)
        st.rerun()


def jobs_panel() -> None:
    """One line for each job, renewed every second while one is running."""
    problem = st.session_state.pop("job problem", None)
    if problem is not None:
        st.warning(plain(problem))
    jobs = board().jobs
    if not jobs:
        return
    running = any(job.state is JobState.RUNNING for job in jobs)
    with st.container(border=True, key="jobs"):
        st.fragment(_lines, run_every=1.0 if running else None)(running)


def _lines(were_running: bool) -> None:
    jobs = board().jobs
    for number, job in enumerate(jobs):
        _line(job, f"job {number}")
    if were_running and not any(job.state is JobState.RUNNING for job in jobs):
        st.rerun()  # the page shows what was stored


def _line(job: Job, key: str) -> None:
    state = job.state
    with st.container(horizontal=True, vertical_alignment="center"):
        since = f" · {job.seconds:,.0f} s" if state is JobState.RUNNING else ""
        st.markdown(f"**{plain(job.title)}** · {state}{since}")
        if state is JobState.RUNNING:
            st.button("Cancel", key=f"{key} cancel", on_click=job.cancel)
        else:
            if job.run is not None and st.button("Open the run", key=f"{key} open"):
                open_stored_run(job.run)
            st.button("Dismiss", key=f"{key} dismiss", on_click=board().dismiss, args=(job,))
    if state is JobState.RUNNING:
        st.progress(job.progress or 0.0, text=plain(job.last_line[:120]) or "starting …")
    elif state is JobState.FAILED:
        st.error(plain(job.problem))
