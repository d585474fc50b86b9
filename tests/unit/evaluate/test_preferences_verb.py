"""``workbench compare --preferences`` as typed: what it prints, what it stores, one line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.evaluate.test_preferences import PROMPTS, models
from workbench.cli.compare import command
from workbench.errors import WorkbenchError
from workbench.runs import Run

__all__ = ["models"]  # the fixture


def typed(root: Path, *words: str) -> str:
    done = CliRunner().invoke(command, [*words, "--preferences", f"--root={root}"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS))
    return f"--prompts={file}"


def test_replies_are_made_then_rated(models: list[str], prompts: str, tmp_path: Path) -> None:
    root, figure = tmp_path / "runs", tmp_path / "rates.svg"
    record: Any = json.loads(typed(root, *models, prompts, "--max-tokens=4", "--json"))
    assert set(record["results"]) == {"one", "two", "three"}  # lengths alone
    run = Run.open(record["run"])
    text = typed(root, *models, f"--replies={run.path.name}", "--by=pattern:cat", f"--figure={figure}")
    for said in (
        "win rate",
        "at equal lengths",
        "strengths by Bradley and Terry's model",
        "one and two: no pref",
    ):
        assert said in text
    assert "one against two" in figure.read_text()


def test_votes_need_no_models_files(tmp_path: Path) -> None:
    votes = tmp_path / "votes.csv"
    votes.write_text("prompt,first,second,winner\n" + "".join(f"{n},base,tuned,tuned\n" for n in range(8)))
    record: Any = json.loads(typed(tmp_path / "runs", "base", "tuned", f"--by=votes:{votes}", "--json"))
    (pair,) = record["pairs"]
    assert (pair["losses"], pair["preferred"]) == (8, "tuned")
    assert pair["p_value"] == pytest.approx(2 / 2**8)


def test_options_of_stored_runs_are_refused(models: list[str], prompts: str, tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="--slices is of stored runs"):
        typed(tmp_path, *models, prompts, "--slices")
    with pytest.raises(WorkbenchError, match="needs --prompts FILE, --replies RUN or --by votes:RUN"):
        typed(tmp_path, *models)
