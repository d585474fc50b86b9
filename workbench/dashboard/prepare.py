"""What the first page needs, made ready while the server starts."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from workbench.dashboard.inspection.texts import EXAMPLE
from workbench.dashboard.resources import models_on_offer, opened, traced
from workbench.errors import WorkbenchError
from workbench.figures.view_options import ViewKind

__all__ = ["prepare", "prepare_beside"]


_NO_SESSION = ("bare mode", "without `streamlit run`")


def prepare() -> None:
    """Load the first model on offer and read the example text; a page says what is wrong with it."""
    names = list(models_on_offer().values())
    with suppress(WorkbenchError):
        if names:
            traced(opened(names[0]), EXAMPLE, None, ViewKind.HEAD)


def prepare_beside() -> threading.Thread:
    """Do so in a thread of its own."""
    # There is no session yet, which Streamlit would mention for each use of its cache. A filter, as levels are
    # set anew when its server starts.
    for name in ("scriptrunner_utils.script_run_context", "state.session_state_proxy"):
        logging.getLogger(f"streamlit.runtime.{name}").addFilter(
            lambda record: not any(words in record.getMessage() for words in _NO_SESSION)
        )
    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    return thread
