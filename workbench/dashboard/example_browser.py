"""Single examples of a run: filtered, sorted, and opened in Inspect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from workbench.dashboard.navigate import inspect_text
from workbench.dashboard.show import show_table
from workbench.dashboard.store import first_examples
from workbench.runs import Run, RunSummary

__all__ = ["examples_part", "text_to_inspect"]

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
    st.caption(f"{len(shown):,} examples; click a column's name to sort, a row to choose it.")
    code = f"from workbench.runs import Run\n\nRun.open({str(run.path)!r}).examples()\n"
    row = show_table(shown.head(_SHOWN), f"examples {name}", "Examples", code, select=True)
    if (
        st.button("Inspect", type="primary", disabled=row is None, icon=":material/search:")
        and row is not None
    ):
        text, other = text_to_inspect(shown.iloc[row])
        kind = "difference" if other else "attention"
        known = None if run.record.model.get("kind") == "predictions" else str(run.record.model["name"])
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
