"""Evaluation: runs beside one another, two compared item by item, slices, calibration, single examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from workbench.citations import papers_of_run
from workbench.dashboard.evaluation_parts import calibration_part, compare_part, leaderboard_part, slices_part
from workbench.dashboard.jobs_panel import start_job
from workbench.dashboard.navigate import inspect_text
from workbench.dashboard.resources import models_on_offer
from workbench.dashboard.show import cite, plain, show_table
from workbench.dashboard.store import allowed_path, first_examples, stored_runs
from workbench.errors import RunError, WorkbenchError
from workbench.runs import Run, RunState, RunSummary
from workbench.terminal import counted

__all__ = ["evaluation_page", "examples_part", "text_to_inspect"]

_VERBS = ("evaluate", "check")


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
        records = [run.record for run in runs if run.record is not None]
        cite(dict.fromkeys(p for r in records for p in papers_of_run(r.verb, r.recipe)))
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


_ROWS = 5000  # read


_SHOWN = 1000


_RIGHT = ("correct", "greedy", "right")


_TEXTS = ("text", "good", "sentence", "prompt", "context", "premise", "question", "texts")


def examples_part(runs: Sequence[RunSummary]) -> None:
    """The examples of one run with a filter; one click opens an example in Inspect."""
    name = st.selectbox(
        "Run", [run.id for run in runs], key="evaluated", bind="query-params", persist_state="session"
    )
    run = Run.open(next(r.path for r in runs if r.id == name))
    head, count = first_examples(run, _ROWS)
    if count > _ROWS:
        st.caption(f"The first {_ROWS:,} of {count:,} examples.")
    shown = _filtered(head)
    st.caption(f"{counted(len(shown), 'example')}; click a column's name to sort, a row to choose it.")
    code = f"from workbench.runs import Run\n\nRun.open({str(run.path)!r}).examples()\n"
    row = show_table(shown.head(_SHOWN), f"examples {name}", "Examples", code, select=True)
    if (
        st.button("Inspect", type="primary", disabled=row is None, icon=":material/search:")
        and row is not None
    ):
        text, other = text_to_inspect(shown.iloc[row])
        kind = "difference" if other else "attention"
        model = run.record.model
        known = None if model.get("kind") in ("predictions", "function") else str(model["name"])
        inspect_text(text, other=other, tab=kind, model=known)
    if row is not None:
        st.markdown("**The chosen example**")
        st.json({str(name): str(value) for name, value in shown.iloc[row].items()})


def _filtered(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that hold a text, and are right or wrong as asked."""
    right = next((name for name in _RIGHT if name in frame), None)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = st.text_input("Containing", key="containing", bind="query-params", max_chars=200)
        which = "all"
        if right is not None:
            which = st.segmented_control(
                "Which",
                ["all", "right", "wrong"],
                default="all",
                required=True,
                key="which",
                bind="query-params",
            )
    if right is not None and which in ("right", "wrong"):
        frame = frame[frame[right].eq(which == "right")]
    if wanted:
        texts = frame.astype(str)
        hits = texts.apply(lambda column: column.str.contains(wanted, case=False, regex=False))
        frame = frame[hits.any(axis=1)]
    return frame.reset_index(drop=True)


def text_to_inspect(example: pd.Series[Any]) -> tuple[str, str]:
    """The example's text and, of a minimal pair, the other one (empty otherwise)."""
    good, bad = example.get("good"), example.get("bad")
    if isinstance(good, str) and isinstance(bad, str) and good and bad and good != bad:
        return good, bad
    named = [example[name] for name in _TEXTS if isinstance(example.get(name), str) and example[name].strip()]
    others = [
        value for key, value in example.items() if isinstance(value, str) and value.strip() and key != "id"
    ]
    return (named or others or [""])[0], ""


_PARTS = {
    "leaderboard": leaderboard_part,
    "compare": compare_part,
    "slices": slices_part,
    "calibration": calibration_part,
    "examples": examples_part,
}
