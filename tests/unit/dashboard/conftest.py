"""Tiny models on disk, a runs folder, and a page run by Streamlit's own test harness."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="pip install 'transformer-workbench[dashboard]'")

from tests.model_folders import save_bart, save_bert, save_llama

Open = Callable[..., Any]


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="session")
def bart(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bart(tmp_path_factory.mktemp("models") / "bart"))


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_llama(tmp_path_factory.mktemp("models") / "llama"))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    monkeypatch.setenv("WORKBENCH_RUNS", str(folder))
    monkeypatch.setattr("workbench.dashboard.store.EXAMPLE", tmp_path / "no example")
    return folder


@pytest.fixture
def open_page(bert: str, bart: str, llama: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Runs a page with the tiny models on offer, BERT first, and an address to start from."""
    from streamlit.testing.v1 import AppTest

    monkeypatch.setenv("WORKBENCH_DASHBOARD_MODELS", f"{bert}\n{bart}\n{llama}")

    def run(name: str, **address: str) -> Any:
        script = (
            "from workbench.dashboard.resources import choose_model\n"
            f"from workbench.dashboard.{name}_page import {name}_page\n"
            f"choose_model()\n{name}_page()\n"
        )
        page = AppTest.from_string(script, default_timeout=300)
        for key, value in address.items():
            page.query_params[key] = value
        return page.run()

    return run
