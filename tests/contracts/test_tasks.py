"""One suite over every registered task: what is true of each of them, whatever it measures.

The files are small and in the official formats; the answers are made up, so no model is needed. A task whose gold
answers are given back must reach the best value of its metrics, which the metrics' definitions give.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from tests.benchmark_files import write_benchmark
from tests.unit.tiny import word_tokenizer
from workbench.data.source import MissingData
from workbench.errors import DataError
from workbench.evaluate import AVERAGES, GROUPS, TASKS, TaskOptions, expand, find_task
from workbench.evaluate._requests import Generated, GenerationRequest, HeadScores, RollingScore, Score, Tags
from workbench.evaluate.tasks.task_types import Toxicity
from workbench.models import Kind

DECLARED = [name for name in TASKS if not name.startswith("lambada")]
# Metrics whose best value is not 1
BEST = {"bleu": 100.0, "chrf": 100.0, "margin": 999.0, "gender_parity": 1.0}
BEST |= dict.fromkeys(("ties", "calibration_error", "brier"), 0.0)
# Metrics that say nothing about right and wrong here
FREE = {"token_perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "toxicity_probability"}
# of a part of the items, which may be empty here
PARTS = {
    f"accuracy_{part}" for part in ("chosen_longer", "chosen_shorter", "chosen_refuses", "rejected_refuses")
}
THRESHOLDS = {"best_exact_thresh", "best_f1_thresh"}  # no value is better


def task_of(name: str, **options: Any) -> Any:
    task = find_task(name, TaskOptions(**options))
    return replace(task, judge=lambda texts: [0.0] * len(texts)) if isinstance(task, Toxicity) else task


def score(value: float) -> Score:
    return Score((5,), (value,), (5,), (1,))


def gold_answers(item: Any) -> list[Any]:
    """What a model that knows the gold answer would say."""
    fields = item.fields
    if isinstance(item.requests[0], GenerationRequest):
        said = Generated(str(fields.get("target", " ")), 3, True)
        return [said if isinstance(request, GenerationRequest) else score(-1.0) for request in item.requests]
    if "gold_tags" in fields:
        return [Tags(tuple(fields["gold_tags"]))]
    if "words" in fields:
        return [RollingScore(-20.0, 10, 8, 40, (-2.0,) * 10)]
    gold = fields.get("gold", 0)
    if isinstance(gold, float):  # a similarity, verbalised by whole numbers
        return [score(-100.0 * abs(k - gold)) for k in range(len(item.requests))]
    right = set(fields.get("true", [gold]))
    return [score(-1.0 if k in right else -1000.0) for k in range(len(item.requests))]


@pytest.fixture(scope="module", params=DECLARED)
def loaded(request, tmp_path_factory):
    name = request.param
    folder = write_benchmark(name, tmp_path_factory.mktemp("data"))
    task = task_of(name)
    return task, task.load(folder)


def test_it_says_what_it_is(loaded):
    task, _ = loaded
    assert task.version >= 1
    assert task.kinds
    assert set(task.kinds) <= set(Kind)
    assert ":" in task.about  # names its files
    assert "\n" not in task.about


def test_items_are_unique_and_ask_something(loaded):
    task, data = loaded
    ids = [item.id for item in data.items]
    assert len(set(ids)) == len(ids) > 0
    assert data.identity.rows >= len(ids)
    assert len(data.identity.sha256) == 64
    for item in data.items:
        assert item.requests
        assert all(item.requests_for(kind) for kind in task.kinds)


def test_reading_twice_gives_the_same_items(loaded, tmp_path):
    task, data = loaded
    again = task.load(write_benchmark(task.name, tmp_path))
    assert again.identity.sha256 == data.identity.sha256
    assert [i.id for i in again.items] == [i.id for i in data.items]


def test_gold_answers_reach_the_best_value(loaded):
    task, data = loaded
    rows = [task.example(item, gold_answers(item), word_tokenizer()) for item in data.items]
    examples = pd.DataFrame(rows)
    if any(item.cluster for item in data.items):
        examples["cluster"] = [item.cluster or item.id for item in data.items]
    metrics = task.metrics(examples, seed=0)
    assert metrics
    for name, estimate in metrics.items():
        assert (estimate.higher_is_better is None) is (name in THRESHOLDS)
        if name == "expected_maximum_toxicity":
            assert estimate.value == 0.0
        elif name not in FREE | THRESHOLDS and not (name in PARTS and math.isnan(estimate.value)):
            assert estimate.value == pytest.approx(BEST.get(name, 1.0)), name
        assert math.isnan(estimate.low) or estimate.low <= estimate.value + 1e-9
        assert math.isnan(estimate.high) or estimate.value <= estimate.high + 1e-9


def test_missing_files_are_named(loaded, tmp_path):
    task, _ = loaded
    with pytest.raises(MissingData) as caught:
        task.load(tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path) in message


@pytest.mark.parametrize("name", [n for n in DECLARED if "shots" in getattr(TASKS.get(n), "accepts", ())])
def test_examples_before_the_question_are_seeded_and_not_asked(name, tmp_path):
    folder = write_benchmark(name, tmp_path)
    first, again = (task_of(name, shots=1).load(folder) for _ in range(2))
    assert first.shots is not None
    (text, *_) = first.shots.values()
    assert text
    assert first.items == again.items
    asked = getattr(first.items[0].requests[0], "context", None) or first.items[0].requests[0].text  # type: ignore[union-attr]
    assert text in asked
    shown = len(task_of(name, shots=0).load(folder).items)
    assert len(first.items) in (shown, shown - 1)  # drawn from the rows themselves, or from a train file


@pytest.mark.parametrize(
    "name", [n for n in DECLARED if Kind.CLASSIFIER in TASKS.get(n).kinds and n.startswith("glue")]
)
def test_heads_are_matched_by_their_labels_names(name, tmp_path):
    """The head's labels stand in the opposite order; the answer is found by name."""
    task = task_of(name)
    item = task.load(write_benchmark(name, tmp_path)).items[0]
    if not task.labels:
        row = task.example(item, [HeadScores((3.25,), ("LABEL_0",))], None)
        assert row["prediction"] == 3.25
        return
    gold = int(item.fields["gold"])
    labels = tuple(reversed(task.labels))
    scores = HeadScores(tuple(5.0 if label == task.labels[gold] else 0.0 for label in labels), labels)
    assert task.example(item, [scores], None)["prediction"] == gold


def test_groups_hold_registered_tasks_once():
    for group, members in GROUPS.items():
        assert group not in TASKS
        assert len(set(members)) == len(members) > 1
        assert set(members) <= set(TASKS)
    assert set(AVERAGES) <= set(GROUPS)
    assert len(expand(["glue", "glue/rte"])) == len(GROUPS["glue"]) == 11  # ten tasks, MNLI twice


def test_every_benchmark_of_the_suites_is_there():
    assert {name for name in TASKS if name.startswith("superglue/")} == set(GROUPS["superglue"])
    assert len(GROUPS["superglue"]) == 10
    assert len(GROUPS["bbh"]) == len(GROUPS["bbh_cot"]) == 27


@pytest.mark.parametrize("name", ["glue/rte", "piqa", "squad"])
def test_a_file_of_another_layout_is_refused(name, tmp_path):
    folder = write_benchmark(name, tmp_path)
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_text("one\ttwo\nthree\tfour\n" if path.suffix == ".tsv" else '{"one": 1}\n')
    with pytest.raises(DataError) as caught:
        task_of(name).load(folder)
    assert "\n" not in str(caught.value)
