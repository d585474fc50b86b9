"""Navigation: the models chosen in the sidebar, the jobs, and the pages. Runs as a script under Streamlit."""

from __future__ import annotations

import streamlit as st

from workbench.dashboard.challenge_page import challenge_page
from workbench.dashboard.changes_page import changes_page
from workbench.dashboard.evaluation_page import evaluation_page
from workbench.dashboard.inspect_page import inspect_page
from workbench.dashboard.jobs_panel import jobs_panel
from workbench.dashboard.models_page import models_page
from workbench.dashboard.navigate import follow
from workbench.dashboard.preferences_page import preferences_page
from workbench.dashboard.probes_page import probes_page
from workbench.dashboard.resources import choose_model
from workbench.dashboard.runs_page import runs_page
from workbench.dashboard.training_page import training_page

__all__ = ["main"]

# Compact, so that the first figure is seen without scrolling; the padding clears the toolbar of a narrow window.
_STYLE = """
[data-testid='stMainBlockContainer'] { padding-top: 3.75rem; }
[data-testid='stMainBlockContainer'] h1 { font-size: 1.9rem; padding: 0 0 .5rem; }
[data-testid='stMainBlockContainer'] h3 { font-size: 1.3rem; }
.facts { display: flex; flex-wrap: wrap; gap: .7rem 2rem; margin: 0; padding: 0 !important; }
.facts dt { font-size: .85rem; opacity: .75; }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.st-key-template textarea { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85rem; }
@media (max-width: 640px) { [data-testid='stMainBlockContainer'] { padding-left: .8rem; padding-right: .8rem; } }
"""


def main() -> None:
    """Lay out the sidebar and run the page that the address names."""
    st.set_page_config(page_title="Transformer workbench", page_icon="🔬", layout="wide")
    page = st.navigation(
        [
            st.Page(
                inspect_page, title="Inspect", url_path="inspect", icon=":material/search:", default=True
            ),
            st.Page(models_page, title="Models", url_path="models", icon=":material/memory:"),
            st.Page(probes_page, title="Probes", url_path="probes", icon=":material/colorize:"),
            st.Page(
                challenge_page, title="Challenge sets", url_path="challenge", icon=":material/checklist:"
            ),
            st.Page(
                evaluation_page, title="Evaluation", url_path="evaluation", icon=":material/leaderboard:"
            ),
            st.Page(changes_page, title="Changes", url_path="changes", icon=":material/compare_arrows:"),
            st.Page(
                preferences_page,
                title="Preferences",
                url_path="preferences",
                icon=":material/thumbs_up_down:",
            ),
            st.Page(training_page, title="Training", url_path="training", icon=":material/trending_down:"),
            st.Page(runs_page, title="Runs", url_path="runs", icon=":material/folder_open:"),
        ]
    )
    st.html(f"<style>{_STYLE}</style>")
    follow({"inspect": inspect_page, "runs": runs_page})
    choose_model()
    jobs_panel()
    page.run()


if __name__ == "__main__":
    main()
