"""The doctor's verb on real weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import needs_minilm, needs_smollm2, run_command


def examined(*arguments: str) -> dict[str, Any]:
    answer = run_command("doctor", *arguments, "--json")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.weights
@needs_smollm2
def test_smollm2_passes_every_check() -> None:
    found = examined("smollm2-135m", "--dtype", "float32")
    assert found["verdict"] == "pass"
    assert (found["model"], found["kind"], found["dtype"]) == ("smollm2-135m", "causal", "float32")
    # a text of 8,192 tokens is too much to try with a model of this size
    assert {check["name"] for check in found["checks"] if check["status"] != "pass"} == {"longest_text"}
    values = {check["name"]: check["value"] for check in found["checks"]}
    assert values["round_trip"] == 0  # a byte-level tokenizer loses nothing
    assert values["causal_attention"] == 0
    assert values["gradient"] < 1e-6  # central differences in float64


@pytest.mark.weights
@needs_minilm
def test_minilm_passes_but_for_what_an_uncased_word_piece_tokenizer_loses() -> None:
    found = examined("minilm-l6", "--dtype", "float32")
    by_name = {check["name"]: check for check in found["checks"]}
    assert found["verdict"] == "warn"
    assert [name for name, check in by_name.items() if check["status"] == "warn"] == ["round_trip"]
    assert "long white space (white space)" in by_name["round_trip"]["detail"]
    skipped = {name for name, check in by_name.items() if check["status"] == "skip"}
    assert skipped == {
        "causal_attention",
        "causal_outputs",
        "cached_generation",
        "probabilities_sum",
        "scorer_log_probabilities",
    }


@pytest.mark.weights
@needs_minilm
def test_table_and_exit_code_of_a_broken_model(tmp_path: Path) -> None:
    import workbench

    loaded = workbench.load("minilm-l6", dtype="float32")
    loaded.model.encoder.layer[3].output.dense.weight.data.fill_(float("nan"))
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    answer = run_command("doctor", str(tmp_path), "--dtype", "float32")
    lines = answer.stdout.splitlines()
    assert (answer.returncode, lines[-1]) == (1, "verdict: fail")
    assert lines[1].split() == ["check", "status", "value", "tolerance", "detail"]
    row = next(line for line in lines if line.startswith("right_padding"))
    assert row.split(maxsplit=4) == [
        "right_padding",
        "fail",
        "-",
        "-",
        "the model gives NaN or infinite outputs",
    ]
    assert "Traceback" not in answer.stdout + answer.stderr


def test_unknown_model_is_one_line_and_exit_code_2() -> None:
    answer = run_command("doctor", "./no-such-folder")
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("workbench: no model at './no-such-folder'")
    assert len(answer.stderr.splitlines()) == 1
