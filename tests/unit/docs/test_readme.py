"""What the README's column "in Python" and the page "From other tools" name works after a bare ``import workbench``."""

from __future__ import annotations

import re

import pytest

from tests.examples import ROOT, Outcome, run_each

pytestmark = pytest.mark.timeout(3000)  # all examples run in the set-up of the first test

_README = (ROOT / "README.md").read_text(encoding="utf-8")
_TABLE = _README.partition("| in Python |\n")[2].partition("\n\n")[0]
_OTHER_TOOLS = (ROOT / "docs" / "from_other_tools.md").read_text(encoding="utf-8")
_ROWS = _OTHER_TOOLS.partition("| there | here |\n")[2].partition("\n\n")[0]
ENTRIES = [
    entry
    for table in (_TABLE, _ROWS)
    for row in table.splitlines()[1:]
    for entry in re.findall(r"`([^`]+)`", row.split("|")[3])
]
# what the paragraph above the table has made
_BEFORE = """import workbench
model = workbench.load("novels-decoder")
run = workbench.evaluate(model, tasks="lambada_sample", limit=20, doctor=False)
"""
_BLOCK = "the block under Install"
# files that entries name
_FILES = """from pathlib import Path
Path("reviews.csv").write_text("text,label\\n" + "a good film,1\\na bad film,0\\n" * 10)
rows = [f"He had {n} dogs, and was happy., and was sad." for n in range(12)]
Path("pairs.csv").write_text("prompt,chosen,rejected\\n" + "\\n".join(rows) + "\\n")
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, Outcome]:
    block = re.search(r"```python\n(.*?)```", _README, flags=re.S)
    assert block is not None
    codes = {_BLOCK: block[1]}
    for entry in ENTRIES:
        uses = [
            word for word in ("model", "run") if re.search(rf"\b{word}\b(?!=)", re.sub(r'"[^"]*"', "", entry))
        ]
        code = _BEFORE if "run" in uses else "".join(_BEFORE.splitlines(True)[: 2 if uses else 1])
        codes[entry] = f"{_FILES}{code}found = {entry}\nassert found is not None\nprint(repr(found))\n"
    return run_each(codes, tmp_path_factory.mktemp("readme"))


def test_the_columns_are_found():
    assert len(ENTRIES) >= 16 + 17


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_works(entry, outcomes):
    assert outcomes[entry].status == 0, outcomes[entry].output


def test_the_block_under_install_works(outcomes):
    assert outcomes[_BLOCK].status == 0, outcomes[_BLOCK].output
