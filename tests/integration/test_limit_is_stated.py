"""A limited run says how its items were chosen, in its notes, its text and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model_folders import save_llama
from workbench.cli import main
from workbench.runs import Run


def test_check_says_that_the_limit_is_spread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(save_llama(tmp_path / "tiny-llama"))
    asked = ["check", model, "--set", "pairs_builtin", "--limit", "3", "--seed", "5", "--no-doctor"]
    for further in (["--json"], []):
        with pytest.raises(SystemExit) as stopped:
            main([*asked, "--out", str(tmp_path / "runs"), *further])
        assert stopped.value.code == 0
    # JSON stands on one line, the text after it
    line, text = capsys.readouterr().out.split("\n", 1)
    said = json.loads(line)
    assert (said["model"]["name"], said["model"]["dtype"]) == (model, "float32")
    note = Run.open(Path(said["run"])).notes["limited"]
    assert note.startswith("limited to 3 items, spread over the set's groups")
    assert "seed 5" in note
    assert note in said["remarks"]
    assert note in text
