"""Challenge sets: results by capability and test, failing cases and why, and checks to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.dashboard.challenge_editor import editor
from workbench.dashboard.jobs_panel import start_job
from workbench.dashboard.navigate import inspect_text
from workbench.dashboard.resources import models_on_offer
from workbench.dashboard.show import plain, show_table, show_view, theme
from workbench.dashboard.store import allowed_path, first_examples, open_run, stored_runs
from workbench.errors import RunError, WorkbenchError
from workbench.figures.frames import table_view

if TYPE_CHECKING:
    from workbench.runs import Run

__all__ = ["challenge_page", "groups_frame", "show_check"]

_PARTS = ("results", "run", "write a template")
_ROWS = 2000  # examples read for failing cases


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


def show_check(run: Run) -> None:
    """One run of a suite or set: its table with intervals, then what failed."""
    code = f"from workbench.runs import Run\n\nrun = Run.open({str(run.path)!r})\n"
    if not run.complete:
        st.warning("This check is not finished; what it has so far is shown.")
    frame = groups_frame(run)
    if "suite" in frame and frame["suite"].nunique() == 1:
        frame = frame.drop(columns="suite")
    if not frame.empty:
        lower = "failure rate" in frame
        value = "failure rate" if lower else "value"
        note = "Lines are 95 % intervals" + (", clustered by template." if lower else ".")
        title = f"{run.record.recipe.get('set')} · {Path(str(run.record.model.get('name'))).name}"
        view = table_view(
            frame, interval=(value, "95 % low", "95 % high"), note=note, title=title, display_mode=theme()
        )
        show_view(view, f"check {run.path.name}", f"{code}run.results, run.notes.get('tests')\n")
    _failing(run, code)


def groups_frame(run: Run) -> pd.DataFrame:
    """Capability and test with their failure rates; or group and metric, of sets without tests."""
    tests = run.notes.get("tests") or {}
    rows = []
    for group, metrics in run.results.items():
        for metric, estimate in metrics.items():
            ends: dict[str, Any] = {"95 % low": estimate.low, "95 % high": estimate.high, "n": estimate.n}
            ends["undefined"] = estimate.undefined or ""
            if group in tests and metric == "failure_rate":
                test = tests[group]
                names = {k: test[k] for k in ("suite", "capability", "test", "kind")}
                rows.append({**names, "failure rate": estimate.value, **ends})
            else:
                rows.append(
                    {
                        "group": group.removeprefix(f"{run.record.recipe.get('set')}/"),
                        "metric": metric,
                        "value": estimate.value,
                        **ends,
                    }
                )
    for group in (name for name in tests if name not in run.results):  # no case was judged
        names = {k: tests[group][k] for k in ("suite", "capability", "test", "kind")}
        rows.append({**names, "n": 0, "undefined": tests[group].get("reason", "")})
    return pd.DataFrame(rows)


def _failing(run: Run, code: str) -> None:
    head, count = first_examples(run, _ROWS)
    if "correct" not in head:
        return
    failing = head[head["correct"].eq(False)].reset_index(drop=True)
    st.subheader("Failing cases")
    if failing.empty:
        st.success("None failed.")
        return
    order = ("test", "group", "good", "bad", "margin", "predicted", "texts", "id")
    shown = [c for c in order if c in failing and not (c == "group" and "test" in failing)]
    st.caption(
        f"{len(failing):,} of the first {min(count, _ROWS):,} cases, the worst first. Choose one to explain it."
    )
    row = show_table(
        failing[shown],
        f"failing {run.path.name}",
        "Failing cases",
        f"{code}examples = run.examples()\nexamples[examples['correct'].eq(False)]\n",
        select=True,
    )
    if (
        st.button("Explain", disabled=row is None, type="primary", icon=":material/search:")
        and row is not None
    ):
        case, model = failing.iloc[row], run.record.model
        known = None if model.get("kind") == "predictions" else str(model["name"])
        good, bad = str(case.get("good", "")), str(case.get("bad", ""))
        compared = bool(good and bad and good != bad)
        inspect_text(
            good or bad,
            other=bad if compared else "",
            tab="difference" if compared else "attention",
            model=known,
        )


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
