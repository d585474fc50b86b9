"""Exported CheckList suites: the published rules by hand, every test in the results, other tasks refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from challenge_sets.checking import check
from challenge_sets.suite import (
    Change,
    CheckListInvariant,
    EqualLabel,
    Monotonic,
    Prediction,
    PredictionFile,
    Shift,
    TestCase,
    VariantLabel,
    load_suites,
    suite_set,
)
from challenge_sets.tables import suite_table
from tests.helpers import data_dir, needs_data
from tests.model_folders import SIZES, framed_tokenizer
from tests.unit.tiny import loaded
from workbench.errors import DataError
from workbench.models import Kind
from workbench.models.batching import padding_of

HEADS = {"num_hidden_layers": 1, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}


def of(negative: float, neutral: float, positive: float) -> Prediction:
    shares = {"negative": negative, "neutral": neutral, "positive": positive}
    return Prediction(max(shares, key=lambda label: shares[label]), shares)


def case(count: int, label: str | None = None) -> TestCase:
    return TestCase("c", "t", tuple((str(i),) for i in range(count)), (label,) * count)


def passes(expectation, *predictions, label=None):
    margin = expectation.judge(case(len(predictions), label), predictions)
    return None if margin is None else margin >= 0


def test_inv_is_the_published_rule():
    """Expect.inv(0.1): an equal label always passes; a flip passes while the original label moves by at most 0.1."""
    inv = CheckListInvariant(0.1)
    assert passes(inv, of(0.9, 0.05, 0.05), of(0.5, 0.25, 0.25)) is True  # moved by 0.4, the label stays
    assert passes(inv, of(0.4, 0.35, 0.25), of(0.35, 0.4, 0.25)) is True  # a flip that moved by 0.05
    assert passes(inv, of(0.5, 0.3, 0.2), of(0.35, 0.45, 0.2)) is False  # a flip that moved by 0.15
    assert passes(inv, of(0.5, 0.3, 0.2), of(0.5, 0.3, 0.2), of(0.3, 0.5, 0.2)) is False  # any variant
    assert passes(inv, of(0.5, 0.3, 0.2)) is None


def test_monotonic_leaves_out_what_cannot_fail_and_neutral_originals():
    up, down = (Monotonic(None, change, 0.1, apart_from="neutral") for change in (Change.UP, Change.DOWN))
    assert (
        passes(down, of(0.02, 0.02, 0.96), of(0.9, 0.05, 0.05)) is None
    )  # 0.96 cannot rise by more than 0.1
    assert passes(down, of(0.2, 0.2, 0.6), of(0.1, 0.1, 0.8)) is False
    assert passes(down, of(0.2, 0.2, 0.6), of(0.18, 0.17, 0.65)) is True  # within the tolerance
    assert passes(up, of(0.3, 0.4, 0.3), of(0.1, 0.1, 0.8)) is None  # the original is neutral
    assert passes(Monotonic("negative", Change.UP, 0.1), of(0.05, 0.05, 0.9), of(0.0, 0.0, 1.0)) is None


def test_added_phrases_shift_the_difference_of_both_ends():
    """positive_change of the published suite: p0 - p0' + p2' - p2, no less than -0.1."""
    shift = Shift("positive", "negative", 0.1)
    assert passes(shift, of(0.2, 0.3, 0.5), of(0.23, 0.3, 0.47)) is True  # -0.03 - 0.03 = -0.06
    assert passes(shift, of(0.2, 0.3, 0.5), of(0.28, 0.28, 0.44)) is False  # -0.08 - 0.06 = -0.14


def test_the_other_directional_rules():
    different = VariantLabel("negative", original="positive")
    assert passes(different, of(0.1, 0.1, 0.8), of(0.1, 0.1, 0.8)) is False
    assert passes(different, of(0.1, 0.1, 0.8), of(0.8, 0.1, 0.1)) is True
    assert passes(different, of(0.8, 0.1, 0.1), of(0.1, 0.1, 0.8)) is None
    loose = EqualLabel(loose="neutral", forbidden="negative")
    assert passes(loose, of(0.1, 0.1, 0.8), label="neutral") is True
    assert passes(loose, of(0.8, 0.1, 0.1), label="neutral") is False
    assert passes(loose, of(0.1, 0.1, 0.8), label="negative") is False


def exported(folder: Path, *tests: dict) -> Path:
    path = folder / "suite.jsonl"
    defaults = {"capability": "c", "type": "MFT", "labels": None}
    path.write_text("".join(json.dumps({**defaults, **test}) + "\n" for test in tests))
    return path


WORDS = {"test": "words", "labels": [2, 0], "cases": ["the cat", "a key"]}
UNKNOWN = {"test": "of our own", "type": "DIR", "cases": [["the cat", "a cat"]]}


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ([{**WORDS, "labels": [3, 0]}], "test 'words': unknown label 3; sentiment has 1 text"),
        (
            [{"test": "q", "labels": ["Shaw"], "cases": [["Who?", "It was Shaw."]]}],
            "test 'q': unknown label 'Shaw'",
        ),
        ([{"test": "q", "labels": [2], "cases": [["a", "b"]]}], "duplicate questions has 2 texts an example"),
        ([WORDS, {"test": "q", "labels": [1], "cases": [["a", "b"]]}], "test 'q': an example of 2 texts"),
    ],
)
def test_suites_of_another_task_are_refused(tmp_path, tests, message):
    with pytest.raises(DataError) as caught:
        load_suites(str(exported(tmp_path, *tests)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def sentiment(positions=64):
    torch.manual_seed(0)
    sizes = {**SIZES, "max_position_embeddings": positions}
    labels = {"id2label": {0: "negative", 1: "neutral", 2: "positive"}, "initializer_range": 0.3}
    model = BertForSequenceClassification(BertConfig(**sizes, **HEADS, **labels))
    return loaded(model, Kind.CLASSIFIER, framed_tokenizer())


def run_of(path: Path, model=None, limit=None):
    how = {"limit_per_paradigm": limit, "out": path.parent, "doctor": False}
    return check(model or sentiment(), str(path), **how)


def test_every_test_of_a_suite_is_in_the_results_with_the_reason(tmp_path):
    run = run_of(exported(tmp_path, WORDS, UNKNOWN))
    table = suite_table(run).set_index("test")
    assert list(table.index) == ["words", "of our own"]
    assert table.loc["words", ["applied", "not_applied"]].tolist() == [2, 0]
    assert table.loc["of our own", "applied"] == 0
    assert "lacks the test's expectation function" in table.loc["of our own", "reason"]


def test_cases_that_do_not_apply_are_counted_apart(tmp_path):
    shares = {"negative": 0.01, "neutral": 0.01, "positive": 0.98}
    reducers = {"test": "reducers", "type": "DIR", "cases": [["the cat", "a cat"], ["the key", "a key"]]}
    path = exported(tmp_path, WORDS, reducers)
    suites = load_suites(str(path))
    ids = [
        f"{suites[0].name}/{case.id}/{i}"
        for test in suites[0].tests
        for case in test.cases
        for i in range(len(case.examples))
    ]
    answers = [shares] * 4 + [{"negative": 0.3, "neutral": 0.3, "positive": 0.4}, shares]
    lines = [
        {"id": name, "label": "positive", "probabilities": given}
        for name, given in zip(ids, answers, strict=True)
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    challenge = suite_set(suites)
    predictions = PredictionFile.read(tmp_path / "p.jsonl", suites)
    run = check(predictions, challenge, out=tmp_path)
    row = suite_table(run).set_index("test").loc["reducers"]
    # the first original is at 0.98, which cannot rise by more than 0.1; the second rises from 0.4 to 0.98
    assert (row["applied"], row["not_applied"], row["failure_rate"]) == (1, 1, 1.0)
    assert run.notes["one_answer_throughout"] == "positive"


def test_texts_that_do_not_fit_are_truncated_and_counted(tmp_path):
    tests = {"test": "words", "labels": [2, 0], "cases": ["the cat", "a key to the cabinet is on the table"]}
    run = run_of(exported(tmp_path, tests), sentiment(positions=8))
    assert run.notes["truncated"] == 1
    # <s> + 9 words + </s> are 11 tokens, of which 8 fit
    assert sorted(run.examples()["truncated"]) == [0, 3]


@needs_data
def test_the_published_exports_are_whole():
    (suite,) = load_suites(str(data_dir() / "checklist" / "sentiment_suite_first40.jsonl"))
    assert (len(suite.tests), len(suite.left_out)) == (38, 0)
    (pairs,) = load_suites(str(data_dir() / "checklist" / "qqp_suite_first25.jsonl"))
    assert [left.name for left in pairs.left_out] == ["Testing implications"]
    assert len(pairs.tests) == 52


@pytest.mark.parametrize(("tokens", "largest"), [(1, 1), (12, 2)])
def test_a_suite_is_read_in_batches_of_the_tokens_asked_for(tmp_path, tokens, largest):
    """Texts of 5 tokens with <s> and </s>: 12 tokens hold two of them, and never less than one is read."""
    model, rows = sentiment(), []
    padding_of(model)
    hook = model.model.register_forward_pre_hook(
        lambda _, __, named: rows.append(len(named["input_ids"])), with_kwargs=True
    )
    tests = {
        "test": "words",
        "labels": [2] * 6,
        "cases": [f"the {w} sat" for w in ["cat", "cats", "keys", "key", "table", "mat"]],
    }
    check(model, str(exported(tmp_path, tests)), out=tmp_path, doctor=False, batch_tokens=tokens)
    hook.remove()
    assert max(rows) == largest
    assert sum(rows) == 6
