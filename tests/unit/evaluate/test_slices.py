from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

import workbench
from tests.unit.evaluate.stored_runs import store
from tests.unit.tiny import tiny_causal
from workbench.errors import DataError, RunError
from workbench.evaluate import own_task
from workbench.evaluate.slices import _search_corrected, one_slice, slice_features, slices, worst_slices


def rows(n: int = 240, weak: float | None = 0.2) -> list[dict[str, object]]:
    """Questions of 3, 6 or 12 words with two labels; long ones of label "no" are right with ``weak``, others 0.8."""
    rng = np.random.default_rng(1)
    made = []
    for i in range(n):
        length, label = (3, 6, 12)[i % 3], ("yes", "no")[i // 3 % 2]
        share = weak if weak is not None and length == 12 and label == "no" else 0.8
        text = " ".join(rng.choice(["red", "blue", "green", "big", "dog"], length))
        made.append({"id": f"q-{i}", "text": text, "label": label, "correct": bool(rng.random() < share)})
    return made


def test_slices_by_one_feature_have_the_rate_of_their_items(tmp_path):
    run = store(tmp_path, "m", rows())
    examples = run.examples()
    found = {s.name: s for s in slices(run, "toy", by="label")}
    assert set(found) == {"label = yes", "label = no"}
    for label in ("yes", "no"):
        part = examples[examples["label"] == label]["correct"]
        rest = examples[examples["label"] != label]["correct"]
        assert found[f"label = {label}"].n == 120
        assert found[f"label = {label}"].estimate.value == pytest.approx(part.mean())
        assert found[f"label = {label}"].difference == pytest.approx(part.mean() - rest.mean())


def test_the_planted_weak_slice_is_found_first(tmp_path):
    worst = worst_slices(store(tmp_path, "m", rows()), "toy", permutations=200)
    assert worst[0].name == "length = 12 to 12 words and label = no"
    assert worst[0].estimate.value < 0.4
    assert worst[0].p_value == pytest.approx(1 / 201)


def test_searching_where_nothing_is_weak_finds_nothing_at_its_level(tmp_path):
    # 25 runs in which every item is right with probability 0.8: p < 0.05 in about 1 of them, in 5 or more
    # with probability 0.007; without the correction for some 20 slices it would be in most.
    found = 0
    for i in range(25):
        rng = np.random.default_rng(i)
        marks = rng.random(120) < 0.8
        made = [{**r, "correct": bool(m)} for r, m in zip(rows(120), marks, strict=True)]
        worst = worst_slices(store(tmp_path, f"m{i}", made), "toy", permutations=100, smallest=10)
        found += worst[0].p_value < 0.05
    assert found <= 4


@pytest.mark.parametrize("either", [True, False])
@pytest.mark.parametrize("sizes", [(30, 30), (6, 18, 36), (8,) * 8])
def test_null_sets_show_a_slice_at_no_more_than_the_level(sizes, either):
    # 1,000 sets in which all items are right with probability 0.7: at most 5 % have a p-value of 0.05 or less
    # (s.e. 0.7 points). Testing the side that is seen, at 5 % each, gave 8.3 %.
    rng = np.random.default_rng(0)
    masks = np.eye(len(sizes), dtype=bool).repeat(sizes, axis=1)
    shown = 0
    for seed in range(1000):
        scores = (rng.random(masks.shape[1]) < 0.7).astype(float)
        shown += _search_corrected(scores, masks, seed, 199, either).min() <= 0.05
    assert shown / 1000 <= 0.05 + 2.5 * 0.0069


def test_two_halves_have_the_p_value_of_fishers_exact_test(tmp_path):
    # of two slices one is as far above as the other is below: the two-sided test of a 2 x 2 table
    made = [{**row, "correct": i % 10 < (4 if row["label"] == "no" else 7)} for i, row in enumerate(rows(60))]
    table = pd.crosstab([row["label"] for row in made], [row["correct"] for row in made]).to_numpy()
    found = slices(store(tmp_path, "m", made), "toy", by="label", permutations=20_000)
    expected = fisher_exact(table).pvalue
    assert [s.p_value for s in found] == pytest.approx([expected] * 2, abs=0.01)


def test_an_empty_slice_and_an_unknown_feature_are_refused(tmp_path):
    run = store(tmp_path, "m", rows(30))
    assert one_slice(run, "toy", "accuracy", "label=no").n == 15
    with pytest.raises(DataError, match="slice 'label=maybe' is empty; did you mean 'yes'"):
        one_slice(run, "toy", "accuracy", "label=maybe")
    with pytest.raises(RunError, match="nothing to slice 'toy' by called 'lenght'; did you mean 'length'"):
        slices(run, "toy", by="lenght")


def test_features_by_hand():
    examples = pd.DataFrame(
        {
            "id": ["1", "2", "3"],
            "premise": ["the cat sat", "the dog ran away", "a bird sang a long song"],
            "hypothesis": ["the cat", "one dog", "no one slept"],
            "log_probability": [-2.0, -4.0, -30.0],
            "tokens": [2, 2, 10],
        }
    )
    features = slice_features(examples)
    assert features["length"].tolist() == ["3 to 3 words", "4 to 4 words", "6 to 6 words"]
    # "the cat" stands in its premise whole, "one dog" by half, "no one slept" not at all.
    assert features["overlap"].tolist() == [
        "1 to 1 of the words",
        "0.5 to 0.5 of the words",
        "0 to 0 of the words",
    ]
    assert features["perplexity"].tolist() == ["2.72 to 2.72", "7.39 to 7.39", "20.1 to 20.1"]


def pairs(n: int = 60) -> list[dict[str, object]]:
    """First texts of 2, 4 or 8 words, second texts of 9 down to 3: both together have 11 words each time."""
    made = []
    for i in range(n):
        first = (2, 4, 8)[i % 3]
        texts = {"first_text": "red " * first, "second_text": "blue " * (11 - first)}
        made.append({"id": f"q-{i}", "text": "red or blue ? ", **texts, "label": i % 2, "correct": i % 5 > 0})
    return made


def test_length_of_a_pair_is_that_of_its_first_text(tmp_path):
    examples = store(tmp_path, "m", pairs()).examples()
    assert sorted(set(slice_features(examples)["length"])) == [
        "2 to 2 words",
        "4 to 4 words",
        "8 to 8 words",
    ]


def test_slices_of_the_same_items_are_reported_once(tmp_path):
    """The first text's length decides the mean word frequency here, and a phenomenon is named after the label."""
    made = [{**row, "phenomenon": f"p{row['label']}"} for row in pairs()]
    run = store(tmp_path, "m", made)
    names = [s.name for s in slices(run, "toy")]
    assert [name for name in names if name.startswith("phenomenon")] == []
    assert sum(name.startswith("label") for name in names) == 2
    worst = worst_slices(run, "toy", permutations=20, smallest=1, top=100)
    found = [s.name for s in worst]
    assert not any("phenomenon" in name for name in found)
    assert len(set(found)) == len(found)


def test_a_run_of_one_task_needs_no_name_and_one_of_several_does(tmp_path):
    run = store(tmp_path, "m", rows())
    assert slices(run, by="label").to_frame().equals(slices(run, "toy", by="label").to_frame())
    run.results["other"] = run.results["toy"]
    with pytest.raises(RunError, match="2 tasks: toy, other; name one"):
        worst_slices(run)


def test_columns_of_ones_own_rows_are_stored_to_slice_by(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    asked = [
        {
            "query": f"the cat sat on {n}",
            "choices": ["mat", "hat"],
            "gold": 0,
            "kind": "abcd"[n % 4],
            "n": n,
            "rows": n % 2,
        }
        for n in range(8)
    ]
    run = workbench.evaluate(tiny_causal(), tasks=own_task(asked, "cats"), doctor=False)
    examples = run.examples()
    assert list(examples["kind"]) == [row["kind"] for row in asked]
    assert list(examples["n"]) == list(range(8))
    assert "query" not in examples  # it is the prompt, which is stored as text
    assert list(examples["rows"]) == [row["rows"] for row in asked]  # though "about" has that word
    assert {s.name for s in slices(run, by="kind")} == {f"kind = {kind}" for kind in "abcd"}


def test_own_columns_named_as_those_of_results_change_no_number(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    plain = [{"query": f"the cat sat on {n}", "choices": ["mat", "hat"], "gold": n % 2} for n in range(12)]
    odd = [
        {**row, "cluster": n % 3, "truncated": 1, "applied": 0, "correct": 1} for n, row in enumerate(plain)
    ]
    runs = [workbench.evaluate(tiny_causal(), tasks=own_task(r, "cats"), doctor=False) for r in (plain, odd)]
    assert runs[0].to_frame().equals(runs[1].to_frame())
    assert runs[0].notes == runs[1].notes
    assert list(runs[1].examples()["own_cluster"]) == [n % 3 for n in range(12)]
    assert {s.name for s in slices(runs[1], by="own_cluster")} == {f"own_cluster = {n}" for n in range(3)}
