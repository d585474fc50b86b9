"""``workbench dashboard``: the pages of :mod:`workbench.dashboard`, served to this machine only."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from workbench.cli._shared import PATH, Whole
from workbench.errors import WorkbenchError, needs_extra
from workbench.terminal import say

__all__ = ["command"]

_FIRST_PORT = 8501

# Nothing leaves the machine: no usage statistics, no address but localhost.
_OPTIONS = {
    "server.address": "localhost",
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "type",
    "global.disableWidgetStateDuplicationWarning": "true",  # a kept choice is no mistake
    "theme.light.primaryColor": "#0072B2",
    "theme.dark.primaryColor": "#5CB3EC",
    # the ground of the figures, so that they stand on the page without an edge
    "theme.dark.backgroundColor": "#14181c",
    "theme.dark.secondaryBackgroundColor": "#1f252b",
}


@click.command(name="dashboard")
@click.option("--runs", type=PATH, help="Folder of runs (default: runs/ or WORKBENCH_RUNS).")
@click.option("--model", "models", multiple=True, help="A model to offer beside the known ones; repeatable.")
@click.option(
    "--folder", "folders", multiple=True, help="A further folder that pages may read files from; repeatable."
)
@click.option("--port", type=Whole(1, 65535), help=f"Port (default: the first free one from {_FIRST_PORT}).")
def command(runs: Path | None, models: tuple[str, ...], folders: tuple[str, ...], port: int | None) -> None:
    """Open the dashboard on localhost. Ctrl-C stops it."""
    if find_spec("streamlit") is None:
        raise WorkbenchError(needs_extra("the dashboard", "streamlit", "dashboard"))
    environment = dict(os.environ)
    if runs is not None:
        if runs.exists() and not runs.is_dir():
            raise WorkbenchError(f"--runs {runs} is no folder; give the folder that holds the run folders")
        environment["WORKBENCH_RUNS"] = str(runs.absolute())
    environment["WORKBENCH_DASHBOARD_MODELS"] = "\n".join(models)
    environment["WORKBENCH_DASHBOARD_FOLDERS"] = "\n".join(str(Path(folder).absolute()) for folder in folders)
    chosen = _free_port(port)
    options = [f"--{name}={value}" for name, value in _OPTIONS.items()]
    say(f"starting the dashboard on http://localhost:{chosen} (Ctrl-C stops it)")
    sys.stdout.flush()
    arguments = [sys.executable, "-P", "-m", "workbench.dashboard", f"--server.port={chosen}", *options]
    os.execve(sys.executable, arguments, environment)


def _free_port(port: int | None) -> int:
    if port is not None:
        if not 1 <= port <= 65535:
            raise WorkbenchError(f"--port {port} is out of range; allowed: 1 to 65535")
        if not _is_free(port):
            raise WorkbenchError(f"port {port} is taken; leave --port out to get a free one")
        return port
    for candidate in range(_FIRST_PORT, _FIRST_PORT + 100):
        if _is_free(candidate):
            return candidate
    raise WorkbenchError(f"ports {_FIRST_PORT} to {_FIRST_PORT + 99} are all taken; choose one with --port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("localhost", port))
        except OSError:
            return False
        return True
