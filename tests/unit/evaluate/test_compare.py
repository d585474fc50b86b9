from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.evaluate.stored_runs import right_or_wrong, store
from workbench.cli._compare_views import comparisons
from workbench.errors import DataError, NumericsError, RunError
from workbench.evaluate.compare import compare, differences_text, run_differences
from workbench.evaluate.compare_items import item_scores
from workbench.evaluate.leaderboard import agreement, leaderboard, only_one_right
from workbench.evaluate.slices import slices
from workbench.runs import Run, RunFolder, RunRecord
from workbench.statistics import bootstrap, matthews_measure, measure_estimate, wilson


def test_right_and_wrong_is_mcnemars_test_on_shared_ids(tmp_path):
    # 8 items: both right 2, first alone 5, second alone 0, neither 1: exact p = 2 / 2^5.
    first = store(tmp_path, "alpha", right_or_wrong("11111110"))
    second = store(tmp_path, "beta", right_or_wrong("11000000")[::-1])  # another order of the same ids
    (found,) = compare([first, second])
    assert (found.task, found.metric, found.first, found.second) == ("toy", "accuracy", "alpha", "beta")
    assert found.counts == (2, 5, 0, 1)
    assert found.test == "McNemar, exact"
    assert found.p_value == pytest.approx(2 / 32)
    assert found.difference.value == pytest.approx(5 / 8)
    assert found.effect_size == pytest.approx(0.5)
    assert found.better is None
    # Error of the mean of five ones and three zeros: sqrt(15/64/7) = 0.1830; times 2.80.
    assert found.detectable == pytest.approx(2.8016 * 0.1830, rel=1e-3)
    gap = 100 * found.detectable
    assert found.verdict == (
        f"no difference shown; with 8 items a gap under {gap:.1f} points would not have been seen"
    )


def test_a_shown_difference_is_told_with_its_interval(tmp_path):
    first = store(tmp_path, "alpha", right_or_wrong("1" * 60 + "0" * 40))
    second = store(tmp_path, "beta", right_or_wrong("1" * 30 + "0" * 70))
    (found,) = compare([first, second])
    assert found.better == "alpha"
    assert found.verdict.startswith("alpha is better by 30.0 points (95 % interval 2")
    assert found.verdict.endswith("on 100 items")


def test_three_runs_give_three_pairs_corrected_together(tmp_path):
    runs = [
        store(tmp_path, f"m{i}", right_or_wrong("1" * k + "0" * (60 - k))) for i, k in enumerate((30, 38, 50))
    ]
    found = compare(runs)
    assert [(c.first, c.second) for c in found] == [("m0", "m1"), ("m0", "m2"), ("m1", "m2")]
    p = [c.p_value for c in found]  # 8, 20 and 12 items that one alone gets right
    assert p == pytest.approx([2 / 2**8, 2 / 2**20, 2 / 2**12])
    assert [c.p_holm for c in found] == pytest.approx([p[0], 3 * p[1], 2 * p[2]])
    assert [c.p_bh for c in found] == pytest.approx([p[0], 3 * p[1], 1.5 * p[2]])


def test_perplexity_compares_by_permutation_and_lower_is_better(tmp_path):
    rng = np.random.default_rng(0)
    base = rng.normal(3, 1, 80)
    runs = []
    for name, shift in (("good", 0.0), ("bad", 0.5)):
        losses = base + shift + rng.normal(0, 0.1, 80)
        rows = [{"id": f"t-{i}", "log_probability": -v, "tokens": 1} for i, v in enumerate(losses)]
        results = {"perplexity": bootstrap(losses, transform=np.exp, higher_is_better=False, seed=0)}
        runs.append(store(tmp_path, name, rows, results=results))
    (found,) = compare(runs)
    assert found.test == "permutation"
    assert found.difference.value < 0
    assert found.better == "good"


def test_items_of_one_passage_are_compared_as_groups(tmp_path):
    pattern = "1111" * 3 + "0000" * 3
    rows = [{**r, "cluster": f"passage-{i // 4}"} for i, r in enumerate(right_or_wrong(pattern))]
    first = store(tmp_path, "alpha", rows)
    second = store(tmp_path, "beta", [{**r, "correct": False} for r in rows])
    (found,) = compare([first, second])
    # Three passages of six differ, all one way: 2 of 8 exchanges are as large, where McNemar would say 0.0005.
    assert (found.clusters, found.test) == (6, "permutation of groups")
    assert found.p_value == pytest.approx(2 / 8, abs=0.02)
    assert found.better is None


def test_labels_give_matthews_and_f1(tmp_path):
    from workbench.statistics import f1_measure

    rng = np.random.default_rng(1)
    gold = rng.integers(0, 2, 60)
    runs = []
    for name, share in (("a", 0.9), ("b", 0.6)):
        predicted = np.where(rng.random(60) < share, gold, 1 - gold)
        sample = np.stack([predicted, gold], 1)
        results = {
            key: measure_estimate(sample, measure, seed=0, resamples=50)
            for key, measure in (("matthews", matthews_measure), ("f1", f1_measure))
        }
        rows = [
            {"id": f"c-{i}", "predicted": ("no", "yes")[p], "gold": ("no", "yes")[g]}
            for i, (p, g) in enumerate(sample)
        ]
        runs.append(store(tmp_path, name, rows, results=results))
    found = compare(runs)
    assert [c.metric for c in found] == ["matthews", "f1"]
    assert item_scores(runs[0], "toy", "matthews").measure is matthews_measure


def test_runs_on_other_data_or_items_are_refused(tmp_path):
    first = store(tmp_path, "alpha", right_or_wrong("1100"))
    with pytest.raises(DataError, match=r"different data for 'toy' \(sha256 aaaaaaaaaaaa and bbbbbbbbbbbb\)"):
        compare([first, store(tmp_path, "beta", right_or_wrong("1100"), sha256="b" * 64)])
    with pytest.raises(
        DataError, match=r"1 ids of .* are missing in .* and 0 the other way round, first 'toy-3'"
    ):
        compare([first, store(tmp_path, "gamma", right_or_wrong("110"))])
    with pytest.raises(RunError, match="no task in common"):
        compare([first, store(tmp_path, "delta", right_or_wrong("1100"), task="other")])
    with pytest.raises(RunError, match="needs two runs"):
        compare([first])
    with pytest.raises(RunError, match="share no metric 'f2'; known: accuracy"):
        compare([first, store(tmp_path, "beta2", right_or_wrong("1100"))], metric="f2")


def test_ids_twice_and_nan_scores_are_named(tmp_path, monkeypatch):
    run = store(tmp_path, "alpha", right_or_wrong("1100"))
    twice = run.examples()
    twice.loc[1, "id"] = "toy-0"
    monkeypatch.setattr(type(run), "examples", lambda self: twice)
    with pytest.raises(RunError, match=r"holds 1 ids of 'toy' twice, first 'toy-0'.* an id of its own"):
        item_scores(run, "toy", "accuracy")
    broken = run.examples().assign(id=[f"toy-{i}" for i in range(4)], correct=[1.0, math.nan, 0.0, 0.0])
    monkeypatch.setattr(type(run), "examples", lambda self: broken)
    with pytest.raises(
        NumericsError,
        match="1 scores behind accuracy of 'toy' are NaN or infinite, first of item 'toy-1'",
    ):
        item_scores(run, "toy", "accuracy")


def test_leaderboard_groups_what_no_test_tells_apart(tmp_path):
    patterns = {"best": "1" * 50 + "0" * 10, "near": "1" * 48 + "0" * 12, "far": "1" * 10 + "0" * 50}
    runs = [store(tmp_path, name, right_or_wrong(p)) for name, p in patterns.items()]
    (board,) = leaderboard(runs[::-1])
    assert board.tested
    assert [(row.group, row.name) for row in board.rows] == [(1, "best"), (1, "near"), (2, "far")]
    assert board.to_frame()["value"].tolist() == pytest.approx([50 / 60, 48 / 60, 10 / 60])


def test_leaderboard_keeps_other_data_apart(tmp_path):
    first = store(tmp_path, "alpha", right_or_wrong("1100"))
    second = store(tmp_path, "beta", right_or_wrong("1100"), sha256="b" * 64)
    assert [len(board.rows) for board in leaderboard([first, second])] == [1, 1]


def test_agreement_and_items_that_one_alone_gets_right(tmp_path):
    runs = [store(tmp_path, n, right_or_wrong(p)) for n, p in (("a", "1100"), ("b", "1010"), ("c", "0010"))]
    shares = agreement(runs, "toy")
    assert shares.at(run="a", other="b") == 0.5
    assert shares.at(run="b", other="c") == 0.75
    # b and c: chance is 1/2 * 1/4 + 1/2 * 3/4 = 1/2, so kappa is (3/4 - 1/2) / (1/2).
    assert agreement(runs, "toy", kappa=True).at(run="b", other="c") == pytest.approx(0.5)
    alone = only_one_right(runs, "toy")
    assert alone[["model", "id"]].values.tolist() == [["a", "toy-1"]]


def pairs_run(root, name, rows, results):
    """A check of pairs, stored as ``challenge_sets`` stores it."""
    record = RunRecord.new(
        "check",
        recipe={"set": "pairs", "convention": "published"},
        model={"name": name, "content_hash": name, "dtype": "float32"},
        data={"pairs": {"name": "pairs", "sha256": "a" * 64, "rows": len(rows)}},
        seeds={},
        label=name,
    )
    folder = RunFolder.create(root, record)
    folder.append(rows)
    folder.finish(results, {})
    return Run.open(folder.path)


def phenomena():
    """Two phenomena that both have a paradigm "simple"; ties in one, whose mean is another group's accuracy."""
    made = []
    for phenomenon, paradigm, marks in (
        ("agreement", "simple", "11010"),
        ("agreement", "across", "1110"),
        ("simple", "simple", "0001000100"),
    ):
        for mark in marks:
            made.append({"id": f"p-{len(made)}", "phenomenon": phenomenon, "paradigm": paradigm})
            made[-1] |= {"correct": mark == "1", "tie": mark == "0"}
    return made


def test_the_items_of_a_group_are_found_by_its_whole_path(tmp_path):
    rows = phenomena()
    right = {
        "pairs": [r["correct"] for r in rows],
        "pairs/agreement": [r["correct"] for r in rows[:9]],
        "pairs/agreement/simple": [r["correct"] for r in rows[:5]],
        "pairs/simple": [r["correct"] for r in rows[9:]],
        "pairs/simple/simple": [r["correct"] for r in rows[9:]],
    }
    results = {name: {"accuracy": wilson(sum(marks), len(marks))} for name, marks in right.items()}
    runs = [pairs_run(tmp_path, name, rows, results) for name in ("a", "b")]
    for name, marks in right.items():
        scores = item_scores(runs[0], name, "accuracy")
        assert scores.values[:, 0].tolist() == marks
    assert [(c.task, c.n) for c in compare(runs)] == [(name, len(marks)) for name, marks in right.items()]
    assert {s.n for s in slices(runs[0], "pairs/agreement", by="paradigm")} == {5, 4}


def test_no_column_is_guessed_from_its_value(tmp_path):
    """``tie`` has the mean that is stored for a metric of which no column is kept; n is that of other rows."""
    rows = phenomena()
    ties = sum(r["tie"] for r in rows)
    stored = {"pairs": {"win_rate": wilson(ties, len(rows)), "accuracy": wilson(7, 9)}}
    run = pairs_run(tmp_path, "a", rows, stored)
    with pytest.raises(RunError, match=r"win_rate of 'pairs' is not made of scores .*\(19 rows for n = 19\)"):
        item_scores(run, "pairs", "win_rate")
    with pytest.raises(RunError, match=r"accuracy of 'pairs' is not made of scores .*\(19 rows for n = 9\)"):
        item_scores(run, "pairs", "accuracy")
    with pytest.raises(
        RunError, match="no metric can be compared item by item; the first: win_rate of 'pairs'"
    ):
        compare([run, pairs_run(tmp_path, "b", rows, stored)])


def test_groups_that_are_stored_under_another_name_are_refused(tmp_path):
    rows = [{"id": "a", "correct": True}, {"id": "b", "correct": False}]
    run = pairs_run(
        tmp_path, "a", rows, {"pairs": {"accuracy": wilson(1, 2)}, "pairs/x": {"accuracy": wilson(1, 2)}}
    )
    with pytest.raises(RunError, match="stores no examples under the name 'pairs/x'"):
        item_scores(run, "pairs/x", "accuracy")


def test_what_is_undefined_is_not_compared_but_said(tmp_path):
    rows = [{"id": f"t-{i}", "prediction": 1, "gold": i % 2} for i in range(6)]
    sample = np.array([(1, i % 2) for i in range(6)], float)
    results = {"matthews": measure_estimate(sample, matthews_measure, seed=0)}
    runs = [store(tmp_path, name, rows, results=results) for name in ("a", "b")]
    with pytest.raises(RunError, match=r"matthews of 'toy' is undefined in .* \(every prediction is 1\)"):
        compare(runs)


def test_equal_runs_have_no_interval_of_zero_width(tmp_path):
    runs = [store(tmp_path, name, right_or_wrong("1100")) for name in ("a", "b")]
    (found,) = compare(runs)
    assert found.difference.value == 0
    assert found.difference.undefined
    assert found.verdict.startswith("no difference shown; with 4 items a gap under")
    rows = [{"id": f"t-{i}", "margin": float(i)} for i in range(4)]
    results = {"margin": bootstrap([0.0, 1.0, 2.0, 3.0], seed=0)}
    (found,) = compare([store(tmp_path, name, rows, results=results) for name in ("c", "d")])
    assert found.verdict == "no difference shown on 4 items: the values have no spread"


def test_every_setting_in_which_runs_differ_is_named(tmp_path):
    """Precision, convention, seeds, data, limit, revision, options, device: whatever a record holds."""

    def stored(name, dtype, convention, limit, seed, data, device):
        record = RunRecord.new(
            "evaluate",
            recipe={"tasks": ["toy"], "convention": convention, "limit": limit, "options": {"shots": limit}},
            model={"name": name, "content_hash": name, "dtype": dtype, "revision": name, "parameters": limit},
            data={"toy": {"sha256": data}},
            seeds={"bootstrap": seed},
        )
        record = replace(record, device={"name": device}, packages={"torch": "2"})
        folder = RunFolder.create(tmp_path, record)
        folder.append([{"id": "toy-0", "task": "toy", "correct": True}])
        folder.finish({"toy": {"accuracy": wilson(1, 1)}}, {})
        return Run.open(folder.path)

    first = stored("a", "float32", "published", None, 0, "x", "cpu")
    second = stored("b", "bfloat16", "lm-eval", 5, 1, "y", "gpu")
    assert run_differences([first, second]) == {
        "convention": ["published", "lm-eval"],
        "limit": [None, 5],
        "options shots": [None, 5],
        "model dtype": ["float32", "bfloat16"],
        "model revision": ["a", "b"],
        "seed bootstrap": [0, 1],
        "data toy sha256": ["x", "y"],
        "device name": ["cpu", "gpu"],
    }
    text = comparisons([first, first], task=None, metric=None, seed=0)
    assert "precision: a" in text.text
    assert ": float32" in text.text
    assert text.text.endswith("the runs have the same settings")
    assert differences_text({"limit": [None, 5]}) == ["settings that differ:", "limit none | 5"]
