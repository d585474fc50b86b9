"""What the first page needs, made ready while the server starts."""

from __future__ import annotations

import logging
import threading

from workbench.dashboard.inspection.texts import EXAMPLE
from workbench.dashboard.resources import models_on_offer, opened, traced
from workbench.errors import WorkbenchError
from workbench.figures.looking import ViewKind

__all__ = ["prepare", "prepare_beside"]


def prepare() -> None:
    """Load the first model on offer and read the example text; a page says what is wrong with it."""
    names = list(models_on_offer().values())
    if not names:
        return
    try:
        traced(opened(names[0]), EXAMPLE, None, ViewKind.HEAD)
    except WorkbenchError:
        return


def prepare_beside() -> threading.Thread:
    """Do so in a thread of its own."""
    # There is no session yet, which Streamlit would mention for each use of its cache.
    logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context").setLevel(logging.ERROR)
    logging.getLogger("streamlit.runtime.state.session_state_proxy").setLevel(logging.ERROR)
    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    return thread
