"""Putting figures, tables and foreign text on a page so that nothing in them runs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from markupsafe import Markup

from workbench.citations import Paper
from workbench.figures import View
from workbench.figures.frames import table_view

__all__ = ["LONGEST", "area", "cite", "extras", "facts", "frame", "plain", "show_table", "show_view", "theme"]

_FORMATS = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "csv": "text/csv",
    "html": "text/html",
}


def plain(text: str) -> str:
    """``text`` for a Streamlit element that reads Markdown, so that it is shown as it stands."""
    visible = "".join(c if c.isprintable() else f"⟨U+{ord(c):04X}⟩" for c in text)
    return re.sub(r"([\\`*_{}\[\]()<>#+\-.!|$:~&@/])", r"\\\1", visible)


def cite(papers: Iterable[Paper]) -> None:
    """Which papers to cite for what is shown, each a link where it has an address."""
    shown = [f"[{plain(str(p))}]({p.url})" if p.url else plain(str(p)) for p in papers]
    if shown:
        st.caption("Cite: " + "; ".join(shown))


def theme() -> str:
    """``light``, ``dark``, or ``auto`` before the browser has told."""
    kind = st.context.theme.type
    return kind if kind in ("light", "dark") else "auto"


def facts(values: Mapping[str, str]) -> None:
    """Names and values side by side, as many in a row as fit."""
    entry = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
    entries = Markup("").join(entry.format(name, value) for name, value in values.items())
    st.html(Markup('<dl class="facts">{}</dl>').format(entries))


_FRAME_SCRIPT = """
export default ({ data, parentElement }) => {
  let frame = parentElement.querySelector("iframe");
  if (!frame) {
    frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    frame.style.cssText = "width:100%;border:0;display:block";
    parentElement.append(frame);
  }
  frame.title = data.title;
  frame.style.height = `${data.height}px`;
  if (frame.srcdoc !== data.page) frame.srcdoc = data.page;
};
"""


def frame(page: str, height: int, title: str, key: str) -> None:
    """A whole HTML page in a frame that cannot reach the dashboard: scripts run, but of no origin."""
    component = st.components.v2.component("workbench_frame", js=_FRAME_SCRIPT)
    component(key=f"frame {key}", data={"page": page, "height": height, "title": title})


def show_view(view: View, key: str, code: str = "") -> None:
    """A figure, with its downloads and the code for it below."""
    frame(view.html, view.height, view.title, key)
    extras(view, key, code)


def show_table(
    table: pd.DataFrame, key: str, title: str, code: str = "", *, select: bool = False, **look: Any
) -> int | None:
    """A table that can be sorted, with the same below it as a figure; the row that was chosen if ``select``.

    ``look`` goes to :func:`streamlit.dataframe`.
    """
    state: Any = st.dataframe(
        table,
        hide_index=True,
        width="stretch",
        key=key,
        alt=title,
        on_select="rerun" if select else "ignore",
        selection_mode="single-row",
        **look,
    )
    extras(table_view(table, title=title), key, code)
    rows: list[int] = state["selection"]["rows"] if select else []
    # A choice made before the table changed may lie beyond its end.
    return rows[0] if rows and rows[0] < len(table) else None


def extras(view: View, key: str, code: str = "") -> None:
    """Downloads in every format, and the lines that make the same in a notebook."""
    with st.container(horizontal=True, gap="small"):
        with st.popover("Download", icon=":material/download:", key=f"download {key}"):
            for suffix, mime in _FORMATS.items():
                _download(view, key, suffix, mime)
        if code:
            with st.popover("The code for this", icon=":material/code:", key=f"code {key}"):
                st.code(code, language="python", wrap_lines=True)


def _download(view: View, key: str, suffix: str, mime: str) -> None:
    """One button; the file is made only when it is pressed."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", key).strip("-.") or "figure"
    st.download_button(
        suffix.upper(),
        data=partial(_saved, view, suffix),
        file_name=f"{name}.{suffix}",
        mime=mime,
        key=f"{key} {suffix}",
        on_click="ignore",
        width="stretch",
        help=f"Download as {suffix.upper()}",
    )


def _saved(view: View, suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return view.save(Path(folder) / f"view.{suffix}").read_bytes()


LONGEST = 6000  # characters; what a link can carry to the server in any script


def area(label: str, key: str, default: str, *, height: int = 80, limit: int = LONGEST) -> str:
    """A text area bound to the address; what is longer than ``limit`` is truncated, and the page says so."""
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
    truncated = st.session_state.pop(f"{key} was truncated", None)
    if truncated is not None:
        st.warning(
            f"{truncated:,} characters are more than this field takes; the first {limit:,} are kept. "
            "Long texts and files are read by the command line."
        )
    return text or ""


def _keep_short(key: str, limit: int) -> None:
    text = st.session_state[key] or ""
    if len(text) > limit:
        st.session_state[f"{key} was truncated"] = len(text)
        st.session_state[key] = text[:limit]
