"""What a stored check found: its groups with intervals, and the cases that failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.dashboard.navigate import inspect_text
from workbench.dashboard.show import show_table, show_view, theme
from workbench.dashboard.store import first_examples
from workbench.figures.frames import table_view

if TYPE_CHECKING:
    from workbench.runs import Run

__all__ = ["groups_frame", "show_check"]

_ROWS = 2000  # examples read for failing cases


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
