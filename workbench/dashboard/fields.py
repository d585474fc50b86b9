"""Fields for text that are kept in the address, and never longer than a link can carry."""

from __future__ import annotations

import streamlit as st

__all__ = ["LONGEST", "area"]

LONGEST = 6000  # characters; what a link can carry to the server in any script


def area(label: str, key: str, default: str, *, height: int = 80, limit: int = LONGEST) -> str:
    """A text area bound to the address; what is longer than ``limit`` is cut, and the page says so."""
    text = st.text_area(
        label,
        default,
        key=key,
        bind="query-params",
        persist_state="session",
        height=height,
        on_change=_keep_short,
        args=(key, limit),
    )
    cut = st.session_state.pop(f"{key} was cut", None)
    if cut is not None:
        st.warning(
            f"{cut:,} characters are more than this field takes; the first {limit:,} are kept. "
            "Long texts and files are read by the command line."
        )
    return text or ""


def _keep_short(key: str, limit: int) -> None:
    text = st.session_state[key] or ""
    if len(text) > limit:
        st.session_state[f"{key} was cut"] = len(text)
        st.session_state[key] = text[:limit]
