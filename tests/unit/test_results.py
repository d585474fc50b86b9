"""Results show themselves alike: a table, a figure where there is one, a short line, HTML for notebooks."""

from __future__ import annotations

from typing import Any

import pytest

import workbench
from tests.unit.tiny import tiny_causal
from workbench.drawn import Drawn
from workbench.evaluate.doctor import Check, Report, Status

TEXT = "the keys to the cabinet are"
TASK = """\
name: be_or_is
type: multiple_choice
prompt: "the {subject} to the cabinet"
choices: [are, is]
rows: [{subject: keys}, {subject: cats}, {subject: dogs}]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, Any]:
    folder, model = tmp_path_factory.mktemp("results"), tiny_causal()
    (folder / "task.yaml").write_text(TASK, encoding="utf-8")
    runs = [
        workbench.evaluate(model, tasks=str(folder / "task.yaml"), out=folder, doctor=False) for _ in range(2)
    ]
    return {
        "trace": workbench.trace(model, TEXT),
        "attribution": workbench.attribute(model, TEXT, method="saliency"),
        "lens": workbench.lens(model, TEXT, target=" is"),
        "patch": workbench.patch(model, "the keys to", "the cats to", " are", " is"),
        "surprisal": workbench.surprisal(model, TEXT),
        "run": runs[0],
        "comparison": workbench.compare(*runs),
    }


KINDS = ["trace", "attribution", "lens", "patch", "surprisal", "run", "comparison"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_a_table_a_figure_and_a_short_line(kind, results):
    result = results[kind]
    assert isinstance(result, Drawn)
    frame = result.to_frame()
    assert len(frame) > 0
    assert result.figure().html.lstrip().lower().startswith("<!doctype html>")
    assert len(result.figure().to_frame()) > 0
    assert repr(result).startswith("<")
    assert len(repr(result)) < 1200
    assert "<" in result._repr_html_()


def test_tables_have_the_numbers(results):
    assert results["run"].to_frame()["n"].tolist() == [3, 3, 3]  # three metrics of three rows
    surprisal = results["surprisal"]
    assert surprisal.words()["bits"].sum() == pytest.approx(surprisal.total)
    frame = results["lens"].to_frame()
    assert len(frame) == results["lens"].layers * len(results["lens"].tokens)
    (accuracy,) = [c for c in results["comparison"] if c.metric == "accuracy"]
    assert accuracy.difference.value == 0.0


def test_surprisal_is_the_score_in_bits():
    model = tiny_causal()
    score = workbench.score(model, TEXT)
    bits = workbench.surprisal(model, TEXT).total
    assert bits * 0.6931471805599453 == pytest.approx(-score.log_probability)


def test_one_request_and_many_give_the_same_score():
    model = tiny_causal()
    pairs = [("the keys to the cabinet", " are"), ("the cats", " sat")]
    many = workbench.score(model, pairs)
    assert [workbench.score(model, *pair).log_probability for pair in pairs] == pytest.approx(
        [score.log_probability for score in many], rel=1e-5
    )


def test_a_doctors_report_names_what_is_wrong():
    report = Report((Check("a", Status.PASS, 0.0, 1.0, ""), Check("b<i>", Status.FAIL, 2.0, 1.0, "too much")))
    assert repr(report) == "<Report fail: 1 pass, 1 fail; see b<i>>"
    assert "b<i>" not in report._repr_html_()


def test_a_model_says_what_it_is_in_one_line():
    model = tiny_causal()
    assert repr(model) == f"<LoadedModel tiny: causal, {model.num_parameters:,} parameters, float32, cpu>"
    again = workbench.wrap(model.model, model.tokenizer, name="mine")
    assert (again.kind, again.name, again.num_parameters) == (model.kind, "mine", model.num_parameters)
