"""``workbench check`` as a user runs it: public numbers on real weights, resumed runs, one-line errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import data_dir, needs_data, needs_smollm2, run_command

pytestmark = pytest.mark.weights
QUICK = ("--dtype", "float32", "--no-doctor")


def check(*arguments: str, out: Path) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(out))
        return run_command("check", *arguments)


def checked(*arguments: str, out: Path) -> dict[str, Any]:
    answer = check("smollm2-135m", *arguments, "--json", out=out)
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.data
@needs_smollm2
@needs_data
def test_blimp_decisions_are_those_of_lm_eval(tmp_path: Path) -> None:
    # The first pair of each paradigm: lm-eval 0.4.13 has 52 of 67 right (benchmarks/minimal_pairs.py).
    blimp = ("--set", "blimp", "--data-dir", str(data_dir() / "blimp"), "--limit-per-paradigm", "1")
    found = checked(*blimp, *QUICK, "--convention", "lm-eval", out=tmp_path)
    overall = found["results"]["blimp"]["accuracy"]
    assert (round(overall["value"] * 67), overall["n"]) == (52, 67)
    assert len(found["results"]) == 1 + 12 + 67
    assert found["published"]["human"]["blimp/island_effects/adjunct_island"] == 0.94
    assert "lm-eval 0.4.13" in found["policy"]


@needs_smollm2
def test_a_run_that_was_cut_short_ends_with_the_same_numbers(tmp_path: Path) -> None:
    arguments = ("--set", "pairs_builtin", "--limit-per-paradigm", "1", *QUICK, "--batch-tokens", "64")
    whole = checked(*arguments, out=tmp_path)
    folder = Path(whole["run"])
    cut = tmp_path / "cut"
    (cut / "chunks").mkdir(parents=True)
    shutil.copy(folder / "run.json", cut)
    import pandas as pd

    pd.read_parquet(folder / "examples.parquet").head(10).to_parquet(
        cut / "chunks" / "000000-aaaaaaaa.parquet"
    )
    answer = check("--resume", str(cut), "--no-doctor", "--batch-tokens", "64", "--json", out=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["results"] == whole["results"]


@needs_smollm2
def test_a_suite_prints_failing_cases_first_and_a_row_a_test(tmp_path: Path) -> None:
    answer = check(
        "smollm2-135m",
        "--suite",
        "sentiment",
        "--limit-per-paradigm",
        "2",
        *QUICK,
        "--explain",
        "1",
        out=tmp_path,
    )
    assert answer.returncode == 0, answer.stderr
    failing, tests = (answer.stdout.index(word) for word in ("should win", "failure rate"))
    assert failing < tests
    rows = [line for line in answer.stdout.splitlines() if " MFT " in line or " DIR " in line]
    assert len(rows) == 17
    assert "predictions part at layer" in answer.stdout


@needs_smollm2
def test_pytest_runs_a_suite_with_its_budget(tmp_path: Path) -> None:
    suite = tmp_path / "gate.yaml"
    suite.write_text(
        "suite: gate\nlabels: {negative: [], positive: []}\n"
        "prompt: {text: '{0} It was', answers: {negative: ' terrible', positive: ' great'}}\n"
        "tests:\n"
        "  - {name: praise, capability: c, kind: MFT, template: 'I loved it.', label: positive}\n"
        "  - {name: never, capability: c, kind: MFT, template: 'I loved it.', label: negative}\n"
        "  - {name: allowed, capability: c, kind: MFT, template: 'I loved it.', label: negative, budget: 1}\n"
    )
    options = (
        "--workbench-suite",
        str(suite),
        "--workbench-model",
        "smollm2-135m",
        "--workbench-dtype",
        "float32",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert answer.returncode == 1, answer.stderr
    assert "1 failed, 2 passed" in answer.stdout
    assert "failure rate 1.000" in answer.stdout
    assert "above the budget 0.1" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("m", "--set", "blmp"), "unknown challenge set 'blmp'; did you mean 'blimp'"),
        (("m", "--set", "blimp"), "set blimp reads BLiMP's"),
        (("m",), "name one of --set and --suite"),
        (("--suite", "sentiment"), "name a MODEL, or give --predictions"),
        (("m", "--suite", "sentimnt"), "did you mean 'sentiment'"),
        (("m", "--set", "pairs_builtin", "--convention", "lmeval"), "unknown convention 'lmeval'"),
        (("m", "--set", "pairs_builtin", "--limit", "0"), "0 is out of range; allowed: 1 or more"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    answer = check(*arguments, out=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert message in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
