"""Suites: expectations by hand-made predictions, YAML mistakes with their lines, prediction files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from challenge_sets.checking import check, check_predictions
from challenge_sets.suite import (
    MFT,
    Change,
    Custom,
    EqualLabel,
    Invariant,
    Monotonic,
    NotLabel,
    Prediction,
    PredictionFile,
    Suite,
    SuitePrompt,
    TestCase,
    export_texts,
    load_suites,
    suite_names,
    suite_set,
)
from challenge_sets.suites.predict import Example, predictor_for
from challenge_sets.tables import suite_table
from tests.model_folders import SIZES, framed_tokenizer
from tests.unit.tiny import loaded, tiny_causal
from workbench.errors import ConfigError, DataError, TaskError, WorkbenchError
from workbench.models import Kind

HEAD = "suite: s\nlabels: {bad: [], good: []}\ntests:\n"
TEST = """\
  - name: t
    capability: c
    kind: MFT
    template: 'It was {adj}.'
    lexicons: {adj: [fine, nice]}
    label: good
"""


def at(good: float) -> Prediction:
    return Prediction("good" if good > 0.5 else "bad", {"good": good, "bad": 1 - good})


def case(*labels: str | None) -> TestCase:
    return TestCase("c", "t", tuple((str(i),) for i in range(len(labels))), labels)


@pytest.mark.parametrize(
    ("expectation", "labels", "goods", "margin"),
    [
        (EqualLabel(), ("good",), (0.7,), 0.4),
        (EqualLabel(), ("good", "bad"), (0.7, 0.9), -0.8),
        (EqualLabel(), (None,), (0.7,), None),
        (NotLabel(), ("bad",), (0.7,), 0.4),
        (NotLabel(), ("good",), (0.7,), -0.4),
        (Invariant(0.1), (None, None), (0.7, 0.75), 0.05),
        (Invariant(0.1), (None, None), (0.7, 0.9), -0.1),
        (Invariant(1.0), (None, None), (0.6, 0.4), -0.2),
        (Invariant(0.1), (None,), (0.7,), None),
        (Monotonic("good", Change.UP), (None, None), (0.5, 0.7), 0.2),
        (Monotonic("good", Change.DOWN, 0.1), (None, None), (0.5, 0.7), -0.1),
        (Monotonic(None, Change.UP), (None, None), (0.2, 0.1), 0.1),  # of the label that the original got
        (Custom(lambda c, p: p[0].label == "good"), (None,), (0.9,), 0.0),
        (Custom(lambda c, p: None), (None,), (0.9,), None),
    ],
)
def test_margins(expectation, labels, goods, margin):
    got = expectation.judge(case(*labels), [at(g) for g in goods])
    assert got is None if margin is None else got == pytest.approx(margin)


def written(folder: Path, text: str) -> str:
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEAD + TEST.replace("    label:", "    lable:"),
            "line 9: unknown key 'lable'; did you mean 'label'",
        ),
        (
            HEAD + TEST.replace("label: good", "label: great"),
            "line 9: 'great' is no label of the suite; labels: bad, good",
        ),
        (
            HEAD + TEST.replace("kind: MFT", "kind: XYZ"),
            "line 6: 'XYZ' is not allowed; allowed: MFT, INV, DIR",
        ),
        (HEAD + TEST.replace("{adj}", "{adv}"), "line 7: slot {adv} has no lexicon 'adv'"),
        (HEAD + TEST + "    count: 500\n", "can make only 2 of 500 cases"),
        (
            HEAD + TEST + "    perturb: typoes\n",
            "line 10: unknown perturbation 'typoes'; did you mean 'typos'",
        ),
        (HEAD + TEST.replace("    label: good\n", ""), "line 4: an MFT test needs 'label' or 'not_label'"),
        (HEAD + TEST + TEST, "has two tests called 't'"),
        ("suite: s\nlabels: {a: []}\n", "no key 'tests'"),
        ("suite: [\n", "is not valid YAML"),
        ("", "is empty"),
        (
            "suite: !!python/object/apply:os.getcwd []\nlabels: {}\ntests: []\n",
            "line 1: tag 'tag:yaml.org,2002:python/object/apply:os.getcwd' is not allowed",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, text, message):
    with pytest.raises(WorkbenchError) as caught:
        load_suites(written(tmp_path, text))
    assert message in str(caught.value)
    assert "suite.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_invalid_utf8_and_pickles_are_refused(tmp_path):
    (tmp_path / "s.yaml").write_bytes(b"suite: \xff\n")
    with pytest.raises(DataError, match="not valid UTF-8"):
        load_suites(str(tmp_path / "s.yaml"))
    (tmp_path / "s.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(DataError, match="pickle can run any code"):
        load_suites(str(tmp_path / "s.pkl"))
    with pytest.raises(TaskError, match="did you mean 'sentiment'"):
        load_suites("sentimnt")


def test_sixty_tests_and_more_come_with_the_package():
    suites = load_suites("all")
    assert len(suites) == len(suite_names()) == 7
    assert sum(len(suite.tests) for suite in suites) >= 60
    assert all(test.cases for suite in suites for test in suite.tests)


def test_each_sentiment_test_has_six_templates_that_draw_apart():
    """Cases of one template are one cluster; templates filled alike would not be independent clusters."""
    (suite,) = load_suites("sentiment")
    for test in suite.tests:
        by_template: dict[str, list] = {}
        for case in test.cases:
            by_template.setdefault(case.template, []).append(tuple(case.metadata.items()))
        assert len(by_template) == 6, test.name
        assert len({len(draws) for draws in by_template.values()}) == 1, test.name
        assert len({tuple(sorted(map(str, draws))) for draws in by_template.values()}) > 1, test.name


def predictions(folder: Path, labels: list[str], change=lambda rows: rows) -> Path:
    challenge = suite_set(load_suites(written(folder, HEAD + TEST)))
    export_texts(challenge, folder / "texts.jsonl")
    rows = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
    assert sorted(row["texts"][0] for row in rows) == ["It was fine.", "It was nice."]
    rows = change([{"id": row["id"], "label": label} for row, label in zip(rows, labels, strict=True)])
    path = folder / "predictions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def judged(folder: Path, path: Path):
    challenge = suite_set(load_suites(str(folder / "suite.yaml")))
    return check_predictions(path, challenge, out=folder / "runs")


def test_a_prediction_file_stands_in_for_a_model(tmp_path):
    run = judged(tmp_path, predictions(tmp_path, ["good", "bad"]))
    rate = run.results["s/c/t"]["failure_rate"]
    assert (rate.value, rate.n, rate.higher_is_better) == (0.5, 2, False)
    assert run.examples()["correct"].tolist() == [False, True]  # failing first
    assert run.record.model["kind"] == "predictions"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:1], "has 1 predictions for 2 texts"),
        (lambda rows: rows[::-1], "line 1 has id 's/t#1/0', but example 1 is 's/t#0/0'"),
        (lambda rows: [{**row, "label": "fine"} for row in rows], "line 1: unknown label 'fine'"),
        (lambda rows: [{**row, "probabilities": {"good": 2}} for row in rows], "numbers from 0 to 1"),
    ],
)
def test_a_prediction_file_must_fit_the_texts(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        judged(tmp_path, predictions(tmp_path, ["good", "bad"], change))
    assert not (tmp_path / "runs").exists()  # no half run is left behind


def test_a_language_model_is_asked_through_the_prompt(tmp_path):
    prompt = "prompt: {text: 'the {0} is', answers: {bad: ' on', good: ' key'}}\n"
    (suite,) = load_suites(written(tmp_path, HEAD.replace("tests:", prompt + "tests:") + TEST))
    run = check(tiny_causal(), suite, out=tmp_path / "runs", doctor=False)
    rows = [json.loads(p)[0] for p in run.examples()["probabilities"]]
    assert all(sum(row.values()) == pytest.approx(1) for row in rows)
    (silent,) = load_suites(written(tmp_path, HEAD + TEST))
    with pytest.raises(TaskError, match="has no prompt"):
        check(tiny_causal(), silent, out=tmp_path / "runs", doctor=False)


def test_an_unknown_first_label_in_python_is_refused():
    with pytest.raises(ConfigError, match="label 'x' is none of the suite's: good"):
        Suite(name="s", labels={"good": ()}, tests=(MFT("t", "c", (case("x"),)),))


def test_prediction_file_reads_probabilities(tmp_path):
    path = predictions(
        tmp_path, ["good", "bad"], lambda r: [{**x, "probabilities": {"good": 0.5, "bad": 0.5}} for x in r]
    )
    read = PredictionFile.read(path, load_suites(str(tmp_path / "suite.yaml")))
    assert read.rows[0][1].probabilities == {"good": 0.5, "bad": 0.5}


def test_outputs_that_mean_one_label_are_taken_together(tmp_path):
    """Neutral and contradiction are both non-entailment: McCoy et al. (2019) map the most probable output."""
    (suite,) = load_suites("nli")
    names = ("entailment", "neutral", "contradiction")
    torch.manual_seed(0)
    config = BertConfig(
        **SIZES,
        num_hidden_layers=1,
        num_attention_heads=2,
        hidden_size=16,
        intermediate_size=16,
        id2label=dict(enumerate(names)),
        initializer_range=1.0,
    )
    model = loaded(BertForSequenceClassification(config), Kind.CLASSIFIER, framed_tokenizer())
    pairs = [
        ("the cat sat", "the dogs ran"),
        ("the keys", "a key"),
        ("on the mat", "the cats are on the mat"),
    ]
    with torch.inference_mode():
        by_hand = [
            model.model(**model.tokenizer(*pair, return_tensors="pt")).logits[0].softmax(-1).tolist()
            for pair in pairs
        ]
    predictor = predictor_for(model, suite)
    found = predictor.predict([Example(str(i), pair) for i, pair in enumerate(pairs)])
    for prediction, outputs in zip(found, by_hand, strict=True):
        assert prediction.of("entailment") == pytest.approx(outputs[0], abs=1e-5)
        assert prediction.of("non-entailment") == pytest.approx(outputs[1] + outputs[2], abs=1e-5)
        assert (prediction.label == "entailment") == (max(outputs) == outputs[0])


def test_a_label_that_the_classifier_lacks_is_named(tmp_path):
    (suite,) = load_suites("sentiment")
    config = BertConfig(
        **SIZES, num_hidden_layers=1, num_attention_heads=2, hidden_size=16, intermediate_size=16
    )
    config.id2label = {0: "negative", 1: "other"}
    model = loaded(BertForSequenceClassification(config), Kind.CLASSIFIER, framed_tokenizer())
    with pytest.raises(TaskError, match="needs the label 'positive'; tiny has negative, other"):
        predictor_for(model, suite)


def test_a_text_in_braces_is_not_filled_twice():
    assert SuitePrompt("{0} then {1}", {}).filled(("{1}", "b")) == "{1} then b"


def test_tests_without_cases_and_ids_that_repeat_are_refused():
    one = TestCase("x", "t", (("a",),), ("good",))
    with pytest.raises(ConfigError, match="test 'm' has no case"):
        Suite(name="s", labels={"good": ()}, tests=(MFT("m", "c", ()),))
    with pytest.raises(ConfigError, match="two cases with the id 'x'"):
        Suite(name="s", labels={"good": ()}, tests=(MFT("m", "c", (one,)), MFT("n", "c", (one,))))


def test_the_results_come_as_a_table(tmp_path):
    table = suite_table(judged(tmp_path, predictions(tmp_path, ["good", "bad"])))
    (row,) = table.to_dict("records")
    assert (row["capability"], row["test"], row["kind"], row["failure_rate"], row["applied"]) == (
        "c",
        "t",
        "MFT",
        0.5,
        2,
    )
