"""Putting figures, tables and foreign text on a page so that nothing in them runs."""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import streamlit as st
from markupsafe import Markup

from workbench.figures import View

__all__ = ["download_buttons", "facts", "frame", "plain", "show_view", "theme"]

_FORMATS = {
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "csv": "text/csv",
}


def plain(text: str) -> str:
    """``text`` for a Streamlit element that reads Markdown, so that it is shown as it stands."""
    visible = "".join(c if c.isprintable() else f"⟨U+{ord(c):04X}⟩" for c in text)
    return re.sub(r"([\\`*_{}\[\]()<>#+\-.!|$:~&@/])", r"\\\1", visible)


def theme() -> str:
    """``light``, ``dark``, or ``auto`` before the browser has told."""
    kind = st.context.theme.type
    return kind if kind in ("light", "dark") else "auto"


def facts(values: Mapping[str, str]) -> None:
    """Names and values side by side, as many in a row as fit."""
    entry = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
    entries = Markup("").join(entry.format(name, value) for name, value in values.items())
    st.html(Markup('<dl class="facts">{}</dl>').format(entries))


def frame(page: str, height: int, title: str) -> None:
    """A whole HTML page in a frame that cannot reach the dashboard: scripts run, but of no origin."""
    inner = (
        f'<iframe srcdoc="{html.escape(page)}" title="{html.escape(title)}" sandbox="allow-scripts" '
        f'style="width:100%;height:{height}px;border:0;display:block"></iframe>'
    )
    st.iframe(f"<style>body{{margin:0}}</style>{inner}", height=height, alt=title)


def show_view(view: View, key: str) -> None:
    """A figure, with its downloads below."""
    frame(view.html, view.height, view.title)
    download_buttons(view, key)


def download_buttons(view: View, key: str) -> None:
    """One button per format; a file is drawn only when its button is pressed."""
    with st.container(horizontal=True):
        for suffix, mime in _FORMATS.items():
            st.download_button(
                suffix.upper(),
                data=partial(_saved, view, suffix),
                file_name=f"{key}.{suffix}",
                mime=mime,
                key=f"{key} {suffix}",
                on_click="ignore",
                help=f"Download this figure as {suffix.upper()}",
            )


def _saved(view: View, suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return view.save(Path(folder) / f"view.{suffix}").read_bytes()
