"""SQuAD v2 beside its official evaluation's rule, written out here question by question (Rajpurkar et al. 2018)."""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.benchmark_files import write_benchmark
from tests.helpers import data_dir, needs_data
from tests.unit.evaluate.stored_runs import store
from workbench.errors import DataError, TaskError
from workbench.evaluate import find_task
from workbench.evaluate._requests import Generated, Score, Span
from workbench.evaluate.compare_items import item_scores
from workbench.evaluate.finetuned import fine_rows


def words(text: str) -> list[str]:
    lower = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", lower).split()


def scores_of(gold: list[str], answer: str) -> tuple[float, float]:
    """Exact match and F1 of one question."""
    golds = [g for g in gold if words(g)] or [""]
    exact, f1 = 0.0, 0.0
    for one in golds:
        right, said = words(one), words(answer)
        exact = max(exact, float(right == said))
        same = sum((Counter(right) & Counter(said)).values())
        if not right or not said:
            f1 = max(f1, float(right == said))
        elif same:
            precision, recall = same / len(said), same / len(right)
            f1 = max(f1, 2 * precision * recall / (precision + recall))
    return exact, f1


def best(answers: list[str], scores: list[float], none: list[float], has: list[bool]) -> tuple[float, float]:
    """The best sum of scores over thresholds, as a mean, and its threshold."""
    now = top = float(has.count(False))
    threshold = 0.0
    for k in sorted(range(len(none)), key=lambda k: none[k]):
        now += scores[k] if has[k] else (-1.0 if answers[k] else 0.0)
        if now > top:
            top, threshold = now, none[k]
    return top / len(none), threshold


def official(golds: list[list[str]], answers: list[str], none: list[float]) -> dict[str, float]:
    pairs = [scores_of(g, a) for g, a in zip(golds, answers, strict=True)]
    has = [bool(g) for g in golds]
    found = {}
    for column, name in enumerate(("exact", "f1")):
        values = [p[column] for p in pairs]
        found["exact_match" if name == "exact" else "f1"] = float(np.mean(values))
        for kind, wanted in (("HasAns", True), ("NoAns", False)):
            chosen = [v for v, h in zip(values, has, strict=True) if h is wanted]
            found[f"{kind}_{name}"] = float(np.mean(chosen))
        found[f"best_{name}"], found[f"best_{name}_thresh"] = best(answers, values, none, has)
    return found


def evaluated(folder: Path, seed: int, limit: int | None = None) -> tuple[pd.DataFrame, dict[str, float]]:
    """Example rows for made-up answers, and the official numbers of the same answers."""
    task, draw = find_task("squadv2"), np.random.default_rng(seed)
    data = task.load(folder)
    rows, golds, answers, none = [], [], [], []
    for item in data.items[:limit]:
        target = str(item.fields["target"])
        made = [
            target,
            " ".join(target.split()[:1]),
            "",
            "the",
            "unanswerable",
            "some other words",
            "an U.S. x",
        ]
        text = made[int(draw.integers(len(made)))]
        chance = float(np.round(draw.random() ** (1 if item.fields["has_answer"] else 0.5), 2))  # with ties
        score = Score((5,), (math.log(max(chance, 1e-9)),), (5,), (1,))
        rows.append(
            {"id": item.id, "cluster": item.cluster}
            | task.example(item, [Generated(f" {text}", 3, True), score], None)
        )
        golds.append(list(item.fields["references"]) if item.fields["has_answer"] else [])
        answers.append("" if text == "unanswerable" else text)
        none.append(math.exp(score.log_probability))
    return pd.DataFrame(rows), official(golds, answers, none)


@needs_data
@pytest.mark.data
def test_all_numbers_are_those_of_the_official_rule() -> None:
    rows, expected = evaluated(data_dir() / "squad", seed=0)
    assert len(rows) == 6078
    assert (~rows["has_answer"]).sum() == 3168  # the file's own count of impossible questions
    found = find_task("squadv2").metrics(rows, seed=0)
    assert {name: e.value for name, e in found.items()} == pytest.approx(expected, abs=1e-12)
    assert found["best_exact"].low < found["best_exact"].value < found["best_exact"].high


def test_the_same_on_a_made_up_file_and_in_comparisons(tmp_path: Path) -> None:
    rows, expected = evaluated(write_benchmark("squadv2", tmp_path), seed=1)
    rows = rows.drop(columns="cluster")  # all of one paragraph
    found = find_task("squadv2").metrics(rows, seed=0)
    assert {name: e.value for name, e in found.items()} == pytest.approx(expected)
    run = store(tmp_path / "runs", "m", rows.to_dict("records"), results=found)
    for name in ("HasAns_exact", "NoAns_f1", "best_exact", "best_f1"):
        scores = item_scores(run, "toy", name)
        assert scores.measure(scores.values) == pytest.approx(expected[name])


def test_a_span_head_withdraws_what_is_less_likely_than_nothing(tmp_path: Path) -> None:
    task = find_task("squadv2")
    item = next(
        i for i in task.load(write_benchmark("squadv2", tmp_path)).items if not i.fields["has_answer"]
    )
    kept, withdrawn = (task.example(item, [Span("red mat", p)], None) for p in (0.4, 0.6))
    assert (kept["predicted"], kept["exact"], withdrawn["predicted"], withdrawn["exact"]) == (
        "red mat",
        0,
        "",
        1,
    )
    assert withdrawn["answered"]  # the sweep is over the spans themselves
    assert withdrawn["raw_exact"] == 0


def test_a_contradiction_in_the_file_is_refused(tmp_path: Path) -> None:
    folder = write_benchmark("squadv2", tmp_path)
    file = folder / "dev-v2.0.json"
    found = json.loads(file.read_text())
    found["data"][0]["paragraphs"][0]["qas"][0]["is_impossible"] = True
    file.write_text(json.dumps(found))
    with pytest.raises(DataError, match="is_impossible is True, and it has 2 answers"):
        find_task("squadv2").load(folder)


def test_a_head_is_not_trained_on_it(tmp_path: Path) -> None:
    """A span head cannot learn yet that there is no answer."""
    with pytest.raises(TaskError, match="task squadv2 cannot be learned by a head; leave out --finetune"):
        fine_rows(find_task("squadv2"), tmp_path)


def test_a_threshold_has_no_better_way() -> None:
    better = {metric.name: metric.higher_is_better for metric in find_task("squadv2").measures}
    assert better["best_exact_thresh"] is None
    assert better["best_exact"] is True
