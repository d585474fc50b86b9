"""What stored runs say together, and what of an example is looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from tests.unit.dashboard.test_pages import finish, store_run
from workbench.dashboard.challenge_page import STARTER, groups_frame, read_suite
from workbench.dashboard.collect import learning_curves, over_steps, step_curves, stored_sweeps, training_log
from workbench.dashboard.evaluation_page import text_to_inspect
from workbench.dashboard.store import stored_runs
from workbench.runs import Run
from workbench.statistics import wilson


def test_checkpoints_of_one_training_make_one_curve(runs: Path) -> None:
    for step in (8, 0, 2):
        finish(store_run(runs, model=f"runs/my-model/step-{step}"))
    finish(store_run(runs, model="another"))
    frame = over_steps(stored_runs())
    assert frame[["model", "step", "task", "metric", "value"]].values.tolist() == [
        ["runs/my-model", step, "t", "accuracy", 0.75] for step in (0, 2, 8)
    ]
    curve = step_curves(frame)[0]
    assert (curve.name, list(curve.x), list(curve.low or ())) == ("my-model t accuracy", [0, 2, 8], [0.5] * 3)


def test_a_log_that_is_cut_short_is_read_as_far_as_it_goes(runs: Path) -> None:
    folder = store_run(runs)
    rows = [{"step": 1, "loss": 2.0}, {"step": 2, "eval_loss": 1.5}, {"step": 3, "loss": 1.0}]
    (folder.path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n{"step": 4, "lo')
    log = training_log(stored_runs()[0])
    assert len(log) == 3
    assert [list(c.x) for c in learning_curves({"a": log}, "loss")] == [[1, 3]]
    assert learning_curves({"a": log}, "nothing") == []


def test_sweeps_are_found_and_what_is_none_is_passed_over(runs: Path, tmp_path: Path) -> None:
    for name, content in (("good", '[{"variant": "rope", "final_loss": 1.5, "future": 1}]'), ("bad", "{")):
        (runs / name).mkdir()
        (runs / name / "sweep.json").write_text(content)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sweep.json").write_text("[]")
    (runs / "linked").symlink_to(tmp_path / "out")
    found = stored_sweeps()
    assert list(found) == ["good"]
    assert found["good"][0].final_loss == 1.5


def test_groups_of_a_suite_are_its_tests(runs: Path) -> None:
    folder = store_run(runs)
    test = {"suite": "s", "capability": "Negation", "test": "not", "kind": "MFT"}
    folder.finish({"s/Negation/not": {"failure_rate": wilson(1, 4)}}, {}, {"tests": {"s/Negation/not": test}})
    row = groups_frame(Run.open(folder.path)).iloc[0]
    assert (row["capability"], row["test"], row["failure rate"], row["n"]) == ("Negation", "not", 0.25, 4)


def test_the_text_of_an_example_is_found() -> None:
    pair = pd.Series({"id": "1", "good": "the cats are", "bad": "the cats is"})
    assert text_to_inspect(pair) == ("the cats are", "the cats is")
    assert text_to_inspect(pd.Series({"id": "1", "n": 3, "text": "a text"})) == ("a text", "")
    assert text_to_inspect(pd.Series({"id": "1", "note": "any"})) == ("any", "")
    assert text_to_inspect(pd.Series({"id": "1", "n": 3})) == ("", "")


def test_the_suite_to_begin_with_reads() -> None:
    suite = read_suite(STARTER)
    assert [len(test.cases) > 10 for test in suite.tests] == [True, True]
