"""From one page to another, taking along what is to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

import streamlit as st

from workbench.dashboard.resources import add_model
from workbench.dashboard.show import LONGEST

__all__ = ["follow", "inspect_text", "open_stored_run"]

_REQUEST = "where to go"


def inspect_text(text: str, *, other: str = "", tab: str = "attention", model: str | None = None) -> NoReturn:
    """Open Inspect on a text, or on two that are compared, in the model that a run was made with."""
    values = {"text": text[:LONGEST], "other": other[:LONGEST], "pair": "", "target": "", "tab": tab}
    _go("inspect", values, model)


def open_stored_run(name: str) -> NoReturn:
    """Open a run on the page Runs."""
    _go("runs", {"run": name}, None)


def _go(page: str, values: dict[str, str], model: str | None) -> NoReturn:
    """Ask for a page; fields can only be filled before they are drawn, so the script starts again."""
    st.session_state[_REQUEST] = (page, values, model)
    st.rerun(scope="app")


def follow(pages: Mapping[str, Callable[[], None]]) -> None:
    """Go to that of ``pages`` which was asked for, if any; called before any field is drawn."""
    request = st.session_state.pop(_REQUEST, None)
    if request is None:
        return
    page, values, model = request
    st.session_state.update(values)
    if model is not None:
        add_model(model)
    # An empty mapping clears the address of the page left, also of what its fields are bound to.
    st.switch_page(st.Page(pages[page], url_path=page), query_params={})
