"""Each function of the API reference has an example in its docstring, which runs in a process of its own."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import pytest

import workbench
from tests.examples import ROOT, Outcome, run_each

pytestmark = pytest.mark.timeout(3000)  # all examples run in the set-up of the first test

PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
PATHS = [
    path for page in PAGES for path in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), flags=re.M)
]


def _found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


FUNCTIONS = [path for path in PATHS if inspect.isroutine(_found(path))]


def _example(path: str) -> str:
    found = re.search(
        r"^Example:\n +```python\n(.*?)^ +```", inspect.getdoc(_found(path)) or "", flags=re.M | re.S
    )
    assert found is not None, f"the docstring of {path} has no example"
    return inspect.cleandoc(found[1])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, Outcome]:
    return run_each({path: _example(path) for path in FUNCTIONS}, tmp_path_factory.mktemp("api"))


def test_every_verb_is_on_the_first_page():
    page = (ROOT / "docs" / "api" / "verbs.md").read_text(encoding="utf-8")
    verbs = [name for name in workbench.__all__ if name.islower() and not name.startswith("_")]
    assert [f"workbench.{verb}" for verb in verbs] == sorted(re.findall(r"heading: ([\w.]+)", page))


def test_every_name_of_the_reference_is_documented():
    assert [path for path in PATHS if not inspect.getdoc(_found(path))] == []


@pytest.mark.parametrize("path", FUNCTIONS)
def test_an_example_runs(path, outcomes):
    assert outcomes[path].status == 0, outcomes[path].output
    assert outcomes[path].output.strip(), "it prints what it found"
