"""From one page to another, taking along what is to be looked at."""

from __future__ import annotations

from typing import NoReturn

import streamlit as st

from workbench.dashboard.resources import add_model

__all__ = ["inspect_text", "open_stored_run"]


def inspect_text(text: str, *, other: str = "", tab: str = "attention", model: str | None = None) -> NoReturn:
    """Open Inspect on a text, or on two that are compared, in the model that a run was made with."""
    from workbench.dashboard.inspect_page import inspect_page

    if model is not None:
        add_model(model)
    st.session_state.update({"text": text, "other": other, "pair": "", "tab": tab})
    st.switch_page(st.Page(inspect_page, url_path="inspect"))


def open_stored_run(name: str) -> NoReturn:
    """Open a run on the page Runs."""
    from workbench.dashboard.runs_page import runs_page

    st.session_state["run"] = name
    st.switch_page(st.Page(runs_page, url_path="runs"))
