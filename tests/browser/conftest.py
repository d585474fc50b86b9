"""One browser for all tests here, cut off from the network; the dashboard's server; a picture of what failed."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.helpers import REPOSITORY

CHROMIUM = which("chromium") or which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost",
]
SETTLED = """() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'
  && !document.querySelector('[data-testid=stSkeleton], [data-testid=stSpinner]') && document.querySelector('h1')"""
PATIENCE = (
    300_000  # milliseconds; a guard against hanging, far above what a page or a job needs on busy cores
)

Visit = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on the path; apt-get install chromium")
    if find_spec("playwright") is None:
        pytest.skip("pip install playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    if call.when == "call":
        item.stash[_FAILED] = outcome.get_result().failed


_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of a running dashboard that offers four tiny models, and its runs folder."""
    if find_spec("streamlit") is None:
        pytest.skip("pip install 'transformer-workbench[dashboard]'")
    from tests.browser.stored import save_models, store_runs

    folder = tmp_path_factory.mktemp("dashboard")
    models = save_models(folder)
    store_runs(folder / "runs", str(models["tiny-llama"]), str(models["tiny-bert"]))
    port = _free_port()
    options = [f"--model={name}" for name in models.values()] + [
        f"--runs={folder / 'runs'}",
        f"--port={port}",
    ]
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "dashboard", *options],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        _wait_for(f"http://localhost:{port}/_stcore/health", process, folder / "log")
        yield f"http://localhost:{port}", folder / "runs"
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE / 1000)
        finally:
            process.kill()
            log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(3000):
        try:
            with urlopen(address, timeout=5):
                return
        except (URLError, OSError):
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture
def visit(browser: Any, dashboard: tuple[str, Path], request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Opens a page in a session of its own; fails on script errors, dialogs, and requests to anywhere else."""
    base = dashboard[0]
    faults: list[str] = []
    pages: list[Any] = []

    def watch(address: str) -> None:
        if not address.startswith((base, "data:", "blob:", "about:")):
            faults.append(f"request {address}")

    def open_it(path: str = "", width: int = 1280, scheme: str = "light", **address: str) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        page = context.new_page()
        pages.append(page)
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda asked: watch(asked.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.goto(f"{base}/{path}?{urlencode(address)}" if address else f"{base}/{path}")
        settle(page)
        return page

    yield open_it
    if request.node.stash.get(_FAILED, False):
        _keep_pictures(pages, request.node.name)
    for page in pages:
        page.context.close()
    assert faults == []


def settle(page: Any) -> None:
    """Wait until the script has run and all parts are drawn."""
    page.wait_for_timeout(150)  # a change needs a moment to reach the server
    page.wait_for_function(SETTLED, polling=100)  # not each frame, which would have to be drawn


def eventually(page: Any, check: Callable[[], bool]) -> None:
    """Wait until ``check`` holds; what was shown before a change may still be there for a moment."""
    for _ in range(PATIENCE // 100):
        if check():
            return
        page.wait_for_timeout(100)
    assert check()


def _keep_pictures(pages: list[Any], name: str) -> None:
    folder = REPOSITORY / "screenshots"
    folder.mkdir(exist_ok=True)
    for number, page in enumerate(pages):
        page.screenshot(path=folder / f"{re.sub(r'[^a-z0-9_-]+', '-', name)}-{number}.png")
