"""Suites and tasks on a function: the numbers of calling it by hand, stored, resumed and compared as any run."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import workbench
from challenge_sets.suite import load_suites
from tests.benchmark_files import write_benchmark
from tests.helpers import run_command
from tests.unit.models.test_functions import LABELS, pipeline
from workbench.errors import ModelError, RunError, TaskError
from workbench.evaluate import TASKS
from workbench.models import Kind
from workbench.runs import Run

MODULE = """
from tests.unit.models.test_functions import pipeline
fitted = pipeline()
def predict(texts):
    return fitted.predict_proba(texts)
predict.labels = ("negative", "positive")
def logits(texts):
    return [[-1.0, 2.0]] * len(texts)
logits.labels = predict.labels
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_verbs.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_verbs", None)


@pytest.mark.parametrize("given", ["the pipeline itself", "wrapped"])
def test_a_suite_judges_what_predict_proba_gives(tmp_path, given):
    fitted = pipeline()
    subject = fitted if given == "the pipeline itself" else workbench.wrap(fitted.predict_proba)
    run = workbench.check(subject, "sentiment", out=tmp_path)
    assert run.record.model["kind"] == "function"
    assert run.record.doctor == {"verdict": "skipped", "checks": []}
    rows = run.examples()
    (suite,) = load_suites("sentiment")
    assert len(rows) == sum(len(test.cases) for test in suite.tests)
    for row in rows.itertuples():
        expected = fitted.predict_proba([texts[0] for texts in json.loads(row.texts)])
        found = [[p[label] for label in fitted.classes_] for p in json.loads(row.probabilities)]
        assert found == expected.tolist()
    (test,) = [test for test in suite.tests if test.name == "negative words"]
    said = fitted.predict([case.examples[0][0] for case in test.cases])
    rate = run.results["sentiment/Vocabulary/negative words"]["failure_rate"].value
    assert rate == pytest.approx(np.mean(said != "negative"))


def test_a_suite_of_pairs_gives_the_function_pairs(tmp_path):
    given = []

    def predict(pairs):
        given.extend(pairs)
        return [[0.5, 0.3, 0.2]] * len(pairs)

    function = workbench.wrap(predict, labels=("entailment", "neutral", "contradiction"))
    workbench.check(function, "nli", limit=6, out=tmp_path)
    assert given
    assert all(isinstance(pair, tuple) and len(pair) == 2 for pair in given)


def test_a_suite_needs_its_labels_and_a_set_needs_a_language_model(tmp_path):
    with pytest.raises(TaskError, match=r"needs the label 'negative'; mine has good, bad: .* or to labels"):
        workbench.check(
            workbench.wrap(lambda t: None, labels=("good", "bad"), name="mine"), "sentiment", out=tmp_path
        )
    with pytest.raises(
        ModelError, match=r"set pairs_builtin needs a causal or .* mine is a function from texts"
    ):
        workbench.check(workbench.wrap(pipeline(), name="mine"), "pairs_builtin", out=tmp_path)


def test_evaluate_is_right_where_the_function_is(tmp_path):
    fitted = pipeline(
        ("neg", "pos")
    )  # the wrong way round: 'a good film' is negative; names as published heads have
    data = write_benchmark("glue/sst2", tmp_path / "data")
    run = workbench.evaluate(fitted, tasks="glue/sst2", data_dir=str(data), out=tmp_path)
    rows = run.examples()
    expected = fitted.predict_proba(["a good film", "a bad film"])
    assert np.stack(rows["probabilities"]) == pytest.approx(expected, abs=1e-15)
    assert run.results["glue/sst2"]["accuracy"].value == np.mean(expected.argmax(1) == [1, 0]) == 0
    right = workbench.evaluate(pipeline(("pos", "neg")), tasks="glue/sst2", data_dir=str(data), out=tmp_path)
    assert right.results["glue/sst2"]["accuracy"].value == 1
    (compared,) = workbench.compare(right, run, metric="accuracy")
    assert compared.counts == (0, 2, 0, 0)


def test_a_probability_of_zero_stays_finite(tmp_path):
    data = write_benchmark("glue/sst2", tmp_path / "data")
    sure = workbench.wrap(lambda texts: [[1.0, 0.0]] * len(texts), labels=LABELS)
    rows = workbench.evaluate(sure, tasks="glue/sst2", data_dir=str(data), out=tmp_path).examples()
    assert np.stack(rows["probabilities"]).tolist() == [[1.0, pytest.approx(0, abs=1e-300)]] * 2
    assert np.isfinite(np.stack(rows["log_probabilities"])).all()


def test_pairs_of_a_task_and_labels_that_are_not_its_own(tmp_path):
    data = write_benchmark("glue/rte", tmp_path / "data")
    given = []

    def predict(pairs):
        given.extend(pairs)
        return [[0.2, 0.8]] * len(pairs)

    options = {"tasks": "glue/rte", "data_dir": str(data), "out": tmp_path}
    workbench.evaluate(workbench.wrap(predict, labels=("not_entailment", "entailment")), **options)
    assert all(isinstance(pair, tuple) and len(pair) == 2 for pair in given)
    with pytest.raises(TaskError, match="the head's labels a, b are not those of glue/rte"):
        workbench.evaluate(workbench.wrap(predict, labels=("a", "b")), **options)


def test_functions_are_asked_for_one_label_of_a_text_and_nothing_else():
    from workbench.evaluate.tasks.task_types import TextClassification

    asked = {name for name in TASKS if Kind.FUNCTION in TASKS.get(name).kinds}
    assert {"glue/sst2", "glue/rte", "hans"} <= asked
    assert "glue/stsb" not in asked
    assert all(
        isinstance(TASKS.get(name), TextClassification) or name in ("hans", "contrast_sets", "checklist")
        for name in asked
    )


def test_a_task_of_another_kind_is_refused(tmp_path):
    with pytest.raises(
        TaskError, match="task lambada_sample needs a causal model; Pipeline is a function"
    ) as caught:
        workbench.evaluate(pipeline(), tasks="lambada_sample", out=tmp_path)
    assert "--finetune" not in str(caught.value)


def test_verbs_take_a_function_by_name(folder):
    done = run_command("check", "own_verbs:predict", "--suite", "sentiment", "--limit", "20", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["model"]["name"] == "own_verbs:predict"
    assert said["policy"] == "label of the function's largest probability"
    data = write_benchmark("glue/sst2", folder / "data")
    done = run_command("evaluate", "own_verbs:fitted", "--task", "glue/sst2", f"--data-dir={data}")
    assert done.returncode == 0, done.stderr
    assert "own_verbs:fitted (function), doctor: skipped" in done.stdout
    assert " items/s; run stored in " in done.stdout


def test_pytest_takes_a_function_by_name(folder):
    options = ["--workbench-suite=sentiment", "--workbench-model=own_verbs:predict", "--workbench-limit=3"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 1, done.stdout  # six training sentences are too few for the suite
    assert "above the budget 0.1" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "own_verbs:logits", "--suite=sentiment"), "own_verbs:logits returned [-1, 2] for"),
        (("check", "own_verbs:predct", "--suite=sentiment"), "did you mean 'predict'?"),
        (
            ("check", "own_verb:predict", "--suite=sentiment"),
            "no module 'own_verb' in this folder or installed",
        ),
        (("check", "own_verbs:predict", "--suite=sentiment", "--dtype=float16"), "--dtype is of a model"),
        (
            ("check", "own_verbs:predict", "--suite=sentiment", "--explain=2"),
            "this needs a model's internals",
        ),
        (
            ("check", "own_verbs:predict", "--set=pairs_builtin"),
            "needs a causal or masked or seq2seq or detector",
        ),
        (
            ("evaluate", "own_verbs:predict", "--task=lambada_sample"),
            "task lambada_sample needs a causal model",
        ),
        (("lens", "own_verbs:predict", "a film"), "own_verbs:predict names a function"),
        (("attend", "own_verbs:predict", "a film", "--out=a.html"), "own_verbs:predict names a function"),
        (
            ("patch", "own_verbs:predict", "--clean=a", "--corrupted=b", "--target=c", "--contrast=d"),
            "own_verbs:predict names a function",
        ),
        (("probe", "own_verbs:predict", "--task=pos"), "own_verbs:predict names a function"),
        (("doctor", "own_verbs:predict"), "own_verbs:predict names a function"),
        (("context", "own_verbs:predict", "--task=lambada_sample"), "own_verbs:predict names a function"),
        (("tokenize", "a film", "--model=own_verbs:predict"), "own_verbs:predict names a function"),
    ],
)
def test_a_mistake_is_one_line(folder, words, message):
    done = run_command(*words)
    assert done.returncode == 2, done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("workbench: ")]
    assert message in line
    assert "Traceback" not in done.stderr


def killed(folder, name):
    """A run of which one chunk was stored before the function failed."""
    fitted, calls = pipeline(), []

    def predict(texts):
        calls.append(len(texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fitted.predict_proba(texts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.runs._folder.SECONDS_PER_CHUNK", 0.0)
        with pytest.raises(KeyboardInterrupt):
            workbench.check(workbench.wrap(predict, labels=LABELS, name=name), "sentiment", out=folder)
    return max(folder.glob("*sentiment*"))


def test_a_run_of_a_function_without_a_hash_is_resumed_by_name_and_says_so(folder):
    stored = killed(folder / "runs", "own_verbs:predict")
    other = workbench.wrap(lambda texts: None, labels=LABELS, name="other")
    with pytest.raises(RunError, match=r"model.name was 'own_verbs:predict' and is now 'other'"):
        workbench.check(other, "sentiment", resume=stored)
    done = run_command("check", "--resume", str(stored))
    assert done.returncode == 2
    assert "imported only where you name it: workbench check own_verbs:predict --resume RUN" in done.stderr
    assert "own_verbs" not in sys.modules  # a run's file has no code imported
    done = run_command("check", "own_verbs:predict", "--resume", str(stored))
    assert done.returncode == 0, done.stderr
    assert "that own_verbs:predict still was the same function is not known" in done.stdout
    whole = workbench.check(pipeline(), "sentiment", out=folder)
    assert Run.open(stored).results == whole.results
    assert "resumed_by_name" not in whole.notes
