"""Challenge sets through ``evaluate``: the numbers of ``check``, beside those of other tasks, in one run."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

import workbench
from challenge_sets import MinimalPair, check, set_names
from challenge_sets.checking import find_set
from challenge_sets.sets.minimal_pairs import PairSet
from challenge_sets.tasks import TASKS
from tests.unit.tiny import tiny_causal
from workbench.errors import ConfigError, TaskError, UnknownName
from workbench.evaluate import TASKS as REGISTRY
from workbench.evaluate import EvaluateSettings, evaluate, find_task
from workbench.runs import Run


@pytest.fixture(scope="module")
def model():
    return workbench.load("novels-decoder", dtype="float32")


def test_every_set_is_in_the_one_registry():
    assert {task.name for task in TASKS} <= set(set_names())
    assert all(REGISTRY.get(task.name) is task and find_task(task.name) == task for task in TASKS)


def test_a_registered_set_of_ones_own_is_a_task_and_a_set(tmp_path, monkeypatch):
    pairs = [
        MinimalPair("0", "be", "number", "agreement", "the keys are on the mat", "the keys is on the mat")
    ]
    monkeypatch.setattr(REGISTRY, "_items", dict(REGISTRY._items))
    REGISTRY.register("be", PairSet("be", "forms of be", lambda _: pairs))
    found = [
        check(tiny_causal(), "be", out=tmp_path, doctor=False),
        evaluate(tiny_causal(), tasks="be", out=tmp_path, doctor=False),
    ]
    assert found[0].results == found[1].results
    assert found[0].results["be"]["accuracy"].n == 1


@pytest.mark.parametrize("convention", ["workbench", "lm-eval"])
def test_a_set_and_a_task_in_one_run_give_what_each_gives_alone(model, tmp_path, convention):
    how = {"limit": 12, "seed": 3, "doctor": False}
    # lambada_sample takes no convention, so that the two share a run with the default alone
    tasks = ["pairs_builtin", *(["lambada_sample"] if convention == "workbench" else [])]
    run = evaluate(model, tasks=tasks, convention=convention, out=tmp_path / "both", **how)
    checked = check(model, "pairs_builtin", convention=convention, out=tmp_path / "check", **how)
    alone = {
        name: values
        for task in tasks[1:]
        for name, values in evaluate(model, tasks=task, out=tmp_path, **how).results.items()
    }
    assert run.results == {**checked.results, **alone}
    rows = run.examples()
    pairs = rows[rows["task"] == "pairs_builtin"]
    assert set(pairs["id"]) == {f"pairs_builtin/{name}" for name in checked.examples()["id"]}
    assert run.notes["sets"] == {"pairs_builtin": checked.notes}
    assert {"policy", "ties", "published", "limited"} == set(checked.notes)


def test_a_run_with_a_set_resumes(model, tmp_path):
    settings = EvaluateSettings(tasks=("pairs_builtin",), limit=8)
    run = evaluate(model, settings, out=tmp_path, doctor=False)
    again = evaluate(model, settings, out=tmp_path, resume=run.path, doctor=False)
    assert Run.open(again.path).results == run.results


def test_what_a_check_stores_is_what_it_stored_before_it_had_the_runner_of_evaluate(model, tmp_path):
    """The keys and rows of 46c749a, and how texts are read, so that runs of before are resumed, compared and shown."""
    run = check(model, "pairs_builtin", limit=8, seed=3, out=tmp_path, doctor=False)
    assert (run.record.verb, run.record.seeds) == ("check", {"sampling": 3})
    assert list(run.record.recipe) == [
        *(
            "set",
            "suite",
            "data_dir",
            "limit",
            "limit_per_paradigm",
            "convention",
            "reduction",
            "masking",
            "seed",
        ),
        *("chat", "system", "special_tokens"),
        *("version", "policy"),
    ]
    rows = run.examples()
    assert list(rows) == [
        *("id", "paradigm", "phenomenon", "good", "bad", "good_score", "bad_score", "margin", "good_tokens"),
        *("bad_tokens", "tie", "correct", "not_scored"),
    ]
    assert {"items", "seconds", "items_per_second"} <= set(run.throughput)
    assert set(run.notes) == {"policy", "ties", "published", "limited"}
    cut = tmp_path / "cut"  # three rows are stored, the others are not
    (cut / "chunks").mkdir(parents=True)
    shutil.copy(run.path / "run.json", cut)
    rows.head(3).to_parquet(cut / "chunks" / "000000-aaaaaaaa.parquet")
    again = check(model, "pairs_builtin", limit=8, seed=3, resume=cut, doctor=False)
    assert again.results == run.results
    pd.testing.assert_frame_equal(again.examples(), rows)


def test_options_of_other_tasks_are_refused(model):
    with pytest.raises(TaskError, match="task blimp takes no --shots; its options: --limit-per-paradigm, "):
        find_task("blimp", EvaluateSettings(tasks=("blimp",), shots=2).options)
    with pytest.raises(
        TaskError, match="task lambada_sample takes no --limit-per-paradigm; its options: --chat, --system"
    ):
        evaluate(model, tasks="lambada_sample", limit_per_paradigm=2)
    with pytest.raises(TaskError, match="task pairs_builtin takes no --shots"):
        check(model, "pairs_builtin", shots=2)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"convention": "lmeval"}, "unknown convention 'lmeval'; did you mean 'lm-eval'"),
        ({"reduction": "max"}, "'max'"),
        ({"masking": "none"}, "unknown masking 'none'; allowed: original, within_word_l2r"),
        ({"limit_per_paradigm": 0}, "limit_per_paradigm is 0; allowed: 1 or more"),
        ({"seed": -1}, "seed is -1; allowed: from 0"),
        ({"limitt": 3}, "unknown option 'limitt'; did you mean 'limit'"),
    ],
)
@pytest.mark.parametrize(
    "verb", [check, lambda model, task, **options: evaluate(model, tasks=task, **options)]
)
def test_wrong_options_are_refused_alike(model, verb, option, message):
    with pytest.raises(ConfigError, match=message):
        verb(model, "pairs_builtin", **option)


def test_a_task_that_is_no_set_is_not_checked(model):
    with pytest.raises(UnknownName, match="unknown challenge set 'lambada_sample'"):
        find_set("lambada_sample")
    with pytest.raises(UnknownName, match="unknown set or suite 'sentimnt'; did you mean 'sentiment'"):
        check(model, "sentimnt")


@pytest.mark.parametrize(
    ("option", "value"), [("boundary", "separate"), ("keep_bos", True), ("first_token", "prefix")]
)
def test_what_a_set_does_not_follow_is_refused(model, option, value):
    flag = f"--{option.replace('_', '-')}"
    with pytest.raises(TaskError, match=f"{flag} does not go with challenge sets, such as pairs_builtin"):
        evaluate(model, tasks="pairs_builtin", **{option: value})


def test_sets_take_the_options_that_change_their_scores():
    pairs = {"limit_per_paradigm", "convention", "reduction", "masking", "chat", "system"}
    asked = {"limit_per_paradigm", "chat", "system"}  # language models are asked in a prompt
    expected = {"blimp": pairs, "lama": {"limit_per_paradigm", "convention"}, "hans": asked}
    assert {task.name: set(task.accepts) for task in TASKS if task.name in expected} == expected
    with pytest.raises(TaskError, match="task hans takes no --convention; its options: --limit-per-paradigm"):
        check("novels-encoder", "hans", convention="lm-eval")


def test_a_set_given_as_a_task_gets_the_options(model):
    by_name = evaluate(model, tasks="pairs_builtin", limit=6, convention="lm-eval", doctor=False)
    by_task = evaluate(model, tasks=[find_task("pairs_builtin")], limit=6, convention="lm-eval", doctor=False)
    assert by_task.examples()["id"].tolist() == by_name.examples()["id"].tolist()
    assert by_task.results == by_name.results
