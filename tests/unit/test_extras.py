"""What the base install lacks is named with the extra that holds it."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from workbench.data.corpus_stream import stream_corpus
from workbench.errors import WorkbenchError, needs_extra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _calls() -> list[tuple[str, ast.Call]]:
    """Every use of ``needs_extra`` whose package and extra are written out."""
    found = []
    for package in ("workbench", "probes", "challenge_sets"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "needs_extra":
                    found.append((str(file.relative_to(ROOT)), node))
    return found


def test_each_extra_that_a_message_names_holds_the_package() -> None:
    calls = _calls()
    assert len(calls) >= 10
    for file, call in calls:
        extra = ast.literal_eval(call.args[2])
        needed = PROJECT["optional-dependencies"][extra]
        if isinstance(call.args[1], ast.Constant):
            package = str(call.args[1].value)
            assert any(line.startswith(package) for line in needed), (file, package, extra)
            assert not any(line.startswith(package) for line in PROJECT["dependencies"]), (file, package)


def test_readme_names_every_extra_that_a_message_names() -> None:
    install = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("## Install")[2].partition("\n## ")[0]
    )
    for _, call in _calls():
        assert f"`{ast.literal_eval(call.args[2])}`" in install


def test_the_line() -> None:
    line = "training needs the package accelerate: pip install 'transformer-workbench[train]'"
    assert needs_extra("training", "accelerate", "train") == line


def _corpus() -> None:
    list(stream_corpus("hub:owner/corpus", "text"))


def _hub_rows() -> None:
    from workbench.data.hub import hub_rows

    next(hub_rows("hub:owner/set"))


@pytest.mark.parametrize("use", [_corpus, _hub_rows])
def test_hub_readers_name_the_extra(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)  # an import of it fails
    with pytest.raises(
        WorkbenchError, match=r"needs the package datasets: pip install 'transformer-workbench\[hub\]'"
    ):
        use()
