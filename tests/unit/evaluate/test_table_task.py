"""A table of rows as a task: told by its columns, with the numbers of the same task written out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import workbench
from tests.helpers import run_command
from workbench.errors import ConfigError, DataError
from workbench.evaluate.tasks.declared_types import OwnAnswers
from workbench.evaluate.tasks.task_file import own_task, read_task

CAPITALS: list[dict[str, Any]] = [
    {"query": "The capital of France is", "choices": ["Paris", "Lyon"], "gold": 0},
    {"query": "The capital of Italy is", "choices": ["Milan", "Rome", "Oslo"], "gold": "Rome"},
    {"query": "The opposite of hot is", "choices": ["cold", "warm"], "gold": "A"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_questions_with_choices_are_scored_as_continuations(tmp_path: Path) -> None:
    """As llm-foundry's files: each choice after the query and a blank; the right one by number, text or letter."""
    model = workbench.load("novels-decoder")
    run = workbench.evaluate(
        model, tasks=str(write(tmp_path / "capitals.jsonl", CAPITALS)), doctor=False, out=tmp_path
    )
    examples = run.examples()
    assert examples["gold"].tolist() == [0, 1, 0]
    for row, example in zip(CAPITALS, examples.to_dict("records"), strict=True):
        scores = [
            workbench.score(model, row["query"], f" {choice}").log_probability for choice in row["choices"]
        ]
        assert list(example["log_probabilities"]) == pytest.approx(scores, rel=1e-4)
    right = [e["prediction"] == e["gold"] for e in examples.to_dict("records")]
    assert run.results["capitals"]["accuracy"].value == pytest.approx(sum(right) / 3)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (CAPITALS[0], "MultipleChoice"),
        ({"question": "q", "options": ["a", "b"], "answer": "b"}, "MultipleChoice"),
        ({"context_options": ["The bag", "The cup"], "continuation": "is big.", "gold": 1}, "PartialChoice"),
        ({"text": "The ___ barks.", "candidates": ["dog", "cat"], "answer": "dog"}, "ClozeTask"),
        ({"question": "2+2?", "answer": "4"}, "OwnAnswers"),
        ({"prompt": "Translate: chien", "output": "dog"}, "OwnAnswers"),
        ({"sentence": "a good film", "label": "good"}, "TextClassification"),
        ({"text": "A text."}, "Perplexity"),
    ],
)
def test_the_columns_tell_the_kind_of_task(row: dict[str, Any], kind: str, tmp_path: Path) -> None:
    rows = [row, {**row, "label": "bad"}] if "label" in row else [row]
    task = read_task(write(tmp_path / "own.jsonl", rows))
    assert (type(task).__name__, task.name) == (kind, "own")
    assert len(task.load(None).items) == len(rows)


@pytest.mark.parametrize(
    ("choices", "gold", "place"),
    [
        ([" was", " were"], " were", 1),
        ([" was", " were"], "was", 0),
        (["1", "2"], "2", 1),  # the choice itself
        (["1", "2"], 1, 1),  # a number counts from 0
        (["a cat", "a dog"], "B", 1),
    ],
)
def test_the_right_choice_is_named_in_several_ways(choices: list[str], gold: object, place: int) -> None:
    (item,) = own_task([{"query": "q", "choices": choices, "gold": gold}], "own").load(None).items
    assert item.fields["gold"] == place


def test_lists_in_cells_of_a_csv_are_written_as_json(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text('question,choices,answer\n"hot, or not?","[""cold"", ""warm""]",1\n')
    (item,) = read_task(file).load(None).items
    assert (item.fields["choices"], item.fields["gold"]) == (["cold", "warm"], 1)


def test_labels_of_a_classifier_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text("text,label\na wonderful film,positive\na dull and boring film,negative\n")
    run = workbench.evaluate("sentiment-encoder", tasks=str(file), doctor=False, out=tmp_path / "runs")
    assert run.results["reviews"]["accuracy"].value == 1.0
    assert run.examples()["label"].tolist() == ["positive", "negative"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": 1}], "no kind of task has its columns 'a'; allowed: context_options"),
        ([], "own.jsonl is empty"),
        ([{"query": "q", "choices": ["only"], "gold": 0}], "a list of two or more"),
        ([{"query": "q", "choices": ["a", "b"], "gold": 2}], "label 2 is outside the set; allowed: a, b"),
        ([{"query": "q", "choices": ["a", "b"], "gold": "c"}], "label 2 is outside the set; allowed: a, b"),
        ([{"text": "no gap", "candidates": ["a", "b"], "answer": "a"}], "needs a gap '___'"),
        ([{"text": "a ___", "candidates": ["a", "b"], "answer": "c"}], "among its candidates a, b"),
        ([{"text": "t", "label": "one"}], "column 'label' has 1 classes; allowed: 2 to 50"),
    ],
)
def test_a_table_that_is_no_task_is_said(rows: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_task(write(tmp_path / "own.jsonl", rows)).load(None)


def test_mistakes_of_the_command_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("own.jsonl"), [{"a": 1}])
    for name in ("own.jsonl", "missing.jsonl"):
        done = run_command("evaluate", "novels-decoder", "--task", name)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert name in done.stderr


SUMS = """
name: sums
type: generation
prompt: "Q: {q}\\nA:"
answer: a
pattern: "is (\\\\d+)"
metrics: [exact_match, rougeL]
rows: [{q: "2+2?", a: "4"}]
"""


def test_a_pattern_finds_the_answer_and_metrics_are_chosen(tmp_path: Path) -> None:
    file = tmp_path / "sums.yaml"
    file.write_text(SUMS)
    task = read_task(file)
    assert isinstance(task, OwnAnswers)
    assert [metric.name for metric in task.measures] == ["exact_match", "rougeL"]
    assert [task.read(text) for text in ("It is 4, not 5.", "4", "this is 12.")] == ["4", "", "12"]
    assert task.judge("4", ["4"])["exact"] == 1
    file.write_text(SUMS.replace("rougeL", "rougel"))
    with pytest.raises(ConfigError, match="unknown metric 'rougel'; did you mean 'rougeL'"):
        read_task(file)
    file.write_text(SUMS.replace("is (", "is (("))
    with pytest.raises(ConfigError, match="is no regular expression"):
        read_task(file)
