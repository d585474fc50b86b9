"""What the benchmarks import from this tree is still there: no test runs them, and they import within functions."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))
OURS = {"workbench", "probes", "challenge_sets", "tests"}


def imported(file: Path) -> list[tuple[str, str]]:
    """Module and name of each import from this tree, those within functions too."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return [(str(i.module), n.name) for i in imports if str(i.module).split(".")[0] in OURS for n in i.names]


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.stem)
def test_what_a_benchmark_imports_is_there(file: Path) -> None:
    for module, name in imported(file):
        found = import_module(module)
        is_module = hasattr(found, "__path__") and find_spec(f"{module}.{name}") is not None
        assert is_module or hasattr(found, name), f"{module} has no {name}"
