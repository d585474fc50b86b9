"""The page *Twelve jobs*: ours are the notebook's cells and no longer than the others', which run where installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from itertools import pairwise

import nbformat
import pytest

from tests.examples import ROOT, Outcome, run_each
from tests.helpers import data_dir, needs_data, needs_minilm, needs_smollm2

pytestmark = pytest.mark.timeout(3000)  # all examples run in the set-up of the first test

_PAGE = (ROOT / "docs" / "twelve_jobs.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r'```python title="([^"]+)"\n(.*?)```', flags=re.S)
_BEGINNING, *_SECTIONS = re.split(r"^## ", _PAGE, flags=re.M)
JOBS = {section.split(" ")[0]: _BLOCK.findall(section) for section in _SECTIONS}
THEIRS = {number: blocks[1] for number, blocks in JOBS.items() if len(blocks) > 1}
_BY_HAND = "12"  # two evaluations by lm-eval take as long as all others


def lines(code: str) -> int:
    return sum(bool(line.strip()) and not re.match(r"(import|from) ", line) for line in code.splitlines())


def installed(code: str) -> bool:
    return all(find_spec(name) for name in re.findall(r"^(?:import|from) (\w+)", code, flags=re.M))


RUN = {number: code for number, (_, code) in THEIRS.items() if installed(code) and number != _BY_HAND}


def test_ours_are_the_cells_of_the_notebook() -> None:
    cells = nbformat.read(ROOT / "notebooks" / "08_twelve_jobs.ipynb", as_version=4).cells
    jobs = {
        found[1]: code.source
        for text, code in pairwise(cells)
        if (found := re.match(r"## (\d+) ·", text.source))
    }
    assert {number: blocks[0][1].strip() for number, blocks in JOBS.items()} == jobs
    assert list(jobs) == [str(n) for n in range(1, 13)]


def test_the_table_counts_the_lines() -> None:
    table = re.findall(r"^\| \[(\d+) · .*?\| (\d+) \| (\d*) ?\|", _BEGINNING, flags=re.M)
    counted = [
        (number, str(lines(blocks[0][1])), str(lines(THEIRS[number][1])) if number in THEIRS else "")
        for number, blocks in JOBS.items()
    ]
    assert table == counted
    assert all(int(ours) <= min(5, int(theirs or 5)) for _, ours, theirs in table)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    beginning = _BLOCK.findall(_BEGINNING)[0][1].replace(
        'os.environ["WORKBENCH_DATA"]', repr(str(data_dir()))
    )
    codes = {number: f"{beginning}\n{code}" for number, code in RUN.items()}
    return run_each(codes, tmp_path_factory.mktemp("theirs"))


@needs_data
@needs_smollm2
@needs_minilm
@pytest.mark.weights
@pytest.mark.parametrize("number", RUN)
def test_theirs_runs(number: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[number].status == 0, outcomes[number].output
