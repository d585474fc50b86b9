"""The server: ``python -m workbench.dashboard`` with the options of ``streamlit run``."""

from __future__ import annotations

import sys
from pathlib import Path

from streamlit.web.cli import main

# Imported before the server answers, so that the first page need not wait for it.
import workbench.dashboard.app
import workbench.trace
from workbench.dashboard.prepare import prepare_beside

if __name__ == "__main__":
    script = Path(workbench.dashboard.app.__file__)
    sys.argv = ["streamlit", "run", str(script), *sys.argv[1:]]
    prepare_beside()
    main(prog_name="streamlit")
