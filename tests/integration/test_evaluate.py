"""``workbench evaluate`` as a user runs it: real weights, JSON on standard output, resumed, bad input."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import data_dir, needs_data, needs_smollm2, run_command
from tests.unit.tiny import tiny_causal
from workbench.cli import main

# Float32 on one thread: the numbers below do not depend on the machine's precision.
COMMON = ["smollm2-135m", "--dtype", "float32", "--no-doctor"]


def workbench(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    with contextlib.chdir(cwd):
        done = run_command(*arguments)
    assert done.returncode == code, done.stderr[-2000:]
    return done


@needs_smollm2
@needs_data
def test_first_rows_of_lambada_give_lm_evals_numbers(tmp_path):
    """lm-eval 0.4.13's ``hf`` model, float32, same weights, same 12 rows: see benchmarks/scoring.py."""
    done = workbench(
        "evaluate", *COMMON, "--task", "lambada_openai", "--data-dir", str(data_dir() / "lambada"),
        "--limit", "12", "--json", cwd=tmp_path,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert set(answer) == {"run", "model", "results", "throughput", "doctor", "policy"}
    assert answer["doctor"] == "skipped"
    metrics = answer["results"]["lambada_openai"]
    assert metrics["accuracy"]["n"] == 12
    assert metrics["accuracy"]["value"] == pytest.approx(LM_EVAL_ACCURACY, abs=1e-9)
    assert metrics["perplexity"]["value"] == pytest.approx(LM_EVAL_PERPLEXITY, abs=0.01)
    assert metrics["perplexity"]["low"] < metrics["perplexity"]["value"] < metrics["perplexity"]["high"]
    assert (Path(tmp_path, answer["run"]) / "results.json").is_file()


@needs_smollm2
def test_resuming_with_another_recipe_names_the_difference(tmp_path):
    first = json.loads(
        workbench(
            "evaluate", *COMMON, "--task", "lambada_sample", "--limit", "2", "--json", cwd=tmp_path
        ).stdout
    )
    done = workbench("evaluate", "--resume", first["run"], "--limit", "3", cwd=tmp_path, code=2)
    assert "recipe.limit was 2 and is now 3" in done.stderr


ONE_LINE = {
    "unknown task": (
        ["evaluate", "smollm2-135m", "--task", "lambada_opnai"],
        "did you mean 'lambada_openai'",
    ),
    "unknown model": (["evaluate", "smollm2-135", "--task", "lambada_sample"], "did you mean 'smollm2-135m'"),
    "unknown verb": (["evalute"], "did you mean 'evaluate'"),
    "unknown option": (["evaluate", "--speed", "9"], "No such option"),
    "no such folder": (["evaluate", "./nowhere", "--task", "lambada_sample"], "no model at './nowhere'"),
    "pickle weights": (["evaluate", "pickled", "--task", "lambada_sample"], "only pickle weights"),
    "zero limit": (
        ["evaluate", "smollm2-135m", "--task", "lambada_sample", "--limit", "0"],
        "0 is out of range; allowed: 1 or more",
    ),
    "unknown run": (["report", "no-such-run"], "no run 'no-such-run'"),
    "unknown dtype": (
        ["evaluate", "smollm2-135m", "--task", "lambada_sample", "--dtype", "float23"],
        "float32",
    ),
    "no device": (
        ["evaluate", "smollm2-135m", "--task", "lambada_sample", "--device", "gpu"],
        "allowed: auto, cpu",
    ),
}


@pytest.mark.parametrize("case", ONE_LINE)
@needs_smollm2
def test_a_mistake_gives_one_line_and_exit_code_2(case, tmp_path, monkeypatch, capsys):
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "config.json").write_text("{}")
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"x")
    arguments, message = ONE_LINE[case]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (tmp_path / "runs").exists()


DATA = {
    "empty file": (b"", "is empty"),
    "broken line": (b'{"text": "a b c"}\n' * 56 + b'{"text": \n', "line 57"),
    "one word": (b'{"text": "alone"}\n', "one word"),
    "invalid UTF-8": (b'{"text": "caf\xe9 au lait"}\n', "UTF-8"),
    "lone surrogate": (b'{"text": "a b \\ud800"}\n', "surrogate"),
}


@pytest.mark.parametrize("case", DATA)
def test_bad_data_names_the_file_before_a_model_is_loaded(case, tmp_path, monkeypatch, capsys):
    content, message = DATA[case]
    (tmp_path / "lambada_test.jsonl").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("workbench.models.load", lambda *_, **__: pytest.fail("loaded a model"))
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "smollm2-135m", "--task", "lambada_openai", "--data-dir", str(tmp_path)])
    printed = capsys.readouterr()
    assert message in printed.err
    assert "lambada_test.jsonl" in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_crlf_nbsp_and_a_hundred_thousand_characters_are_read(tmp_path, monkeypatch, capsys):
    """On a tiny random model that reads 64 tokens: the long passage is cut from the left and counted."""
    tiny = tiny_causal(positions=64)
    tiny.model.save_pretrained(tmp_path / "tiny")
    tiny.tokenizer.save_pretrained(tmp_path / "tiny")
    rows = [{"text": "the\u00a0cat sat on the mat"}, {"text": "cats " * 20_000 + "ran"}]
    content = "\r\n".join(json.dumps(row) for row in rows) + "\r\n"
    (tmp_path / "lambada_test.jsonl").write_bytes(content.encode())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", "./tiny", "--task", "lambada_openai", "--data-dir", ".", "--no-doctor", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["results"]["lambada_openai"]["perplexity"]["n"] == 2
    assert math.isfinite(answer["results"]["lambada_openai"]["perplexity"]["value"])
    results = json.loads((tmp_path / answer["run"] / "results.json").read_text())
    assert results["notes"]["truncated"] == 1
    assert answer["policy"].endswith("begin without BOS, as in lm-eval")
    with pytest.raises(SystemExit, match="0"):
        main(
            ["evaluate", "./tiny", "--task", "lambada_openai", "--data-dir", ".", "--no-doctor", "--keep-bos"]
        )
    printed = capsys.readouterr().out
    table, policy = (
        printed.index("perplexity"),
        printed.index("scoring: first token prefix (BOS, or else EOS"),
    )
    assert table < policy  # under the table
    assert (
        "tokenized as one text;\nwhat is truncated, and later windows of a text, begin with BOS too"
        in printed
    )


def test_help_is_fast_and_imports_no_torch(tmp_path):
    code = "import sys, workbench, workbench.cli; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert "evaluate" in workbench("--help", cwd=tmp_path).stdout


# benchmarks/scoring.py --limit 12 printed these for lm-eval 0.4.13 (float32).
LM_EVAL_ACCURACY = 4 / 12
LM_EVAL_PERPLEXITY = 35.7955
