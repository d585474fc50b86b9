"""Navigation: the model chosen in the sidebar, and the pages. Runs as a script under Streamlit."""

from __future__ import annotations

import streamlit as st

from workbench.dashboard.inspect_page import inspect_page
from workbench.dashboard.models_page import models_page
from workbench.dashboard.resources import choose_model
from workbench.dashboard.runs_page import runs_page

__all__ = ["main"]

# The first figure should be seen without scrolling.
_STYLE = "[data-testid='stMainBlockContainer'] { padding-top: 3rem; }"


def main() -> None:
    """Lay out the sidebar and run the page that the address names."""
    st.set_page_config(page_title="Transformer workbench", page_icon="🔬", layout="wide")
    page = st.navigation(
        [
            st.Page(models_page, title="Models", url_path="models", icon=":material/memory:", default=True),
            st.Page(inspect_page, title="Inspect", url_path="inspect", icon=":material/search:"),
            st.Page(runs_page, title="Runs", url_path="runs", icon=":material/folder_open:"),
        ]
    )
    st.html(f"<style>{_STYLE}</style>")
    choose_model()
    page.run()


if __name__ == "__main__":
    main()
