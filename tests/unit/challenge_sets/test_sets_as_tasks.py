"""Challenge sets through ``evaluate``: the numbers of ``check``, beside those of other tasks, in one run."""

from __future__ import annotations

import pytest

import workbench
from challenge_sets import SETS, CheckSettings, check
from challenge_sets.tasks import TASKS
from workbench.errors import TaskError
from workbench.evaluate import EvaluateSettings, evaluate, find_task
from workbench.runs import Run


@pytest.fixture(scope="module")
def model():
    return workbench.load("novels-decoder", dtype="float32")


def test_every_set_is_a_task_that_find_task_knows():
    assert [task.name for task in TASKS] == SETS.names()
    assert all(find_task(name).challenge is SETS.get(name) for name in SETS)


def test_a_set_and_a_task_in_one_run_give_what_each_gives_alone(model, tmp_path):
    settings = EvaluateSettings(tasks=("pairs_builtin", "lambada_sample"), limit=12, seed=3)
    run = evaluate(model, settings, out=tmp_path / "both", doctor=False)
    checked = check(
        model,
        SETS.get("pairs_builtin"),
        CheckSettings(limit=12, seed=3),
        out=tmp_path / "check",
        doctor=False,
    )
    alone = evaluate(
        model, EvaluateSettings(tasks=("lambada_sample",), limit=12, seed=3), out=tmp_path, doctor=False
    )
    assert run.results == {**checked.results, **alone.results}
    rows = run.examples()
    pairs = rows[rows["task"] == "pairs_builtin"]
    assert set(pairs["id"]) == {f"pairs_builtin/{name}" for name in checked.examples()["id"]}
    assert run.notes["policies"] == {"pairs_builtin": checked.notes["policy"]}


def test_a_run_with_a_set_resumes(model, tmp_path):
    settings = EvaluateSettings(tasks=("pairs_builtin",), limit=8)
    run = evaluate(model, settings, out=tmp_path, doctor=False)
    again = evaluate(model, settings, out=tmp_path, resume=run.path, doctor=False)
    assert Run.open(again.path).results == run.results


def test_options_of_other_tasks_are_refused():
    with pytest.raises(TaskError, match="task blimp takes no --shots"):
        find_task("blimp", EvaluateSettings(tasks=("blimp",), shots=2).options)
