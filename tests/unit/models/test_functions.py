"""Functions as models: what they return is checked, names on the command line are imported, nothing else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import workbench
from workbench.errors import ModelError, NumericsError
from workbench.models import Kind, TextFunction, as_subject
from workbench.models.function_names import is_function_name, load_function
from workbench.models.functions import wrap_function

LABELS = ("negative", "positive")
TEXTS = ["a good film", "a bad film"]
TRAINING = ["a wonderful film", "what a good book", "I love it", "a terrible film", "a bad book", "I hate it"]


def pipeline(classes=("positive", "negative")):
    labels = [classes[0]] * 3 + [classes[1]] * 3
    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(TRAINING, labels)


def returning(value, labels=LABELS) -> TextFunction:
    return wrap_function(lambda texts: value, labels, "mine")


def test_what_a_pipeline_says_is_taken_as_it_is():
    fitted = pipeline()
    function = workbench.wrap(fitted)
    assert function.labels == LABELS
    assert function.name == "Pipeline"
    assert function.kind is Kind.FUNCTION
    assert (function.probabilities(TEXTS) == fitted.predict_proba(TEXTS)).all()
    assert (workbench.wrap(fitted.predict_proba).probabilities(TEXTS) == fitted.predict_proba(TEXTS)).all()
    assert function.probabilities([]).shape == (0, 2)


@pytest.mark.parametrize(
    "value",
    [
        [[0.25, 0.75], [1.0, 0.0]],
        np.array([[0.25, 0.75], [1.0, 0.0]], dtype=np.float32),
        torch.tensor([[0.25, 0.75], [1.0, 0.0]], dtype=torch.bfloat16, requires_grad=True),
        [[0.25, 0.7500001], [1.0 + 1e-9, -1e-9]],
    ],
)
def test_rows_of_any_kind_become_an_array(value):
    assert returning(value).probabilities(TEXTS) == pytest.approx(np.array([[0.25, 0.75], [1, 0]]), abs=2e-7)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            [[-1.5, 2.5], [0.5, 0.5]],
            ModelError,
            r"returned \[-1.5, 2.5\] for 'a good film': probabilities are from 0",
        ),
        ([[0.5, 0.5], [0.9, 0.9]], ModelError, r"\[0.9, 0.9\] for 'a bad film', which sum to 1.8, not 1"),
        ([[0.5, 0.5], [0.5, 0.502]], ModelError, "which sum to 1.002, not 1"),
        ([[0.5, 0.5], [float("nan"), 0.5]], NumericsError, r"returned \[nan, 0.5\] for 'a bad film'"),
        ([[0.5, 0.5], [float("inf"), 0.5]], NumericsError, "inf"),
        ([0.5, 0.5], ModelError, r"shape \(2,\); they must be one row a text and one column a label"),
        ([[0.5, 0.5]], ModelError, r"shape \(1, 2\).*\(negative, positive\): \(2, 2\)"),
        ([[0.2, 0.3, 0.5]] * 2, ModelError, r"shape \(2, 3\)"),
        ([[0.5, 0.5], [1.0]], ModelError, "returned list .* it must return numbers"),
        ([{"label": "positive", "score": 0.9}] * 2, ModelError, "returned list .* it must return numbers"),
        (["positive", "negative"], ModelError, "returned list .* it must return numbers"),
        (None, ModelError, "returned NoneType None; it must return numbers"),
        ((row for row in [[0.5, 0.5]]), ModelError, "returned generator"),
    ],
)
def test_what_is_no_table_of_probabilities_is_refused_in_one_line(value, error, message):
    with pytest.raises(error, match=message) as caught:
        returning(value).probabilities(TEXTS)
    assert str(caught.value).startswith("mine returned")
    assert "\n" not in str(caught.value)


def test_an_exception_of_the_function_is_one_line_with_its_cause():
    def broken(texts):
        raise KeyError("weights")

    def talkative(texts):
        raise ValueError("first line\n  second line")

    with pytest.raises(
        ModelError, match=r"broken raised KeyError: 'weights' \(given 2 texts, .*'a good film'"
    ) as caught:
        workbench.wrap(broken, labels=LABELS).probabilities(TEXTS)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ModelError, match="talkative raised ValueError: first line second line"):
        workbench.wrap(talkative, labels=LABELS).probabilities(TEXTS)
    with pytest.raises(
        ModelError, match=r"AttributeError: .* \(given 1 tuple of texts, the first \('a', 'b'\)"
    ):
        workbench.wrap(pipeline()).probabilities([("a", "b")])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "does not say which label each column stands for"),
        ((), "does not say"),
        (("a",), "has the labels a; it needs two or more"),
        (("a", "a"), "has the labels a, a; it needs two or more, each once"),
        ("ab", "has the labels ab; it needs two or more"),
    ],
)
def test_columns_need_names(labels, message):
    with pytest.raises(ModelError, match=message):
        workbench.wrap(lambda texts: [[0.5, 0.5]], labels=labels)


def test_labels_stand_on_the_function_or_are_numbers():
    def predict(texts):
        return [[0.5, 0.5]] * len(texts)

    predict.labels = LABELS
    assert workbench.wrap(predict).labels == LABELS
    assert workbench.wrap(predict, labels=("no", "yes")).labels == ("no", "yes")
    assert workbench.wrap(pipeline((1, 0))).labels == ("LABEL_0", "LABEL_1")  # as transformers names them
    assert workbench.wrap(pipeline((4, 2))).labels == ("2", "4")


def test_what_cannot_be_called_and_models_without_a_tokenizer_are_refused():
    with pytest.raises(
        ModelError, match="is a 'CountVectorizer', which cannot be called and has no predict_proba"
    ):
        wrap_function(CountVectorizer(), LABELS)
    model = workbench.load("sentiment-encoder")
    for options in ({}, {"labels": LABELS}):
        with pytest.raises(ModelError, match="needs its tokenizer and takes no labels"):
            workbench.wrap(model.model, **options)
    for use in (
        lambda: workbench.doctor(model.model),
        lambda: workbench.trace(model.model, "a film"),
        lambda: workbench.check(model.model, "sentiment"),
    ):
        with pytest.raises(
            ModelError, match=r"without its tokenizer; give both: workbench.wrap\(model, tokenizer\)"
        ):
            use()
    with pytest.raises(ModelError, match="a function takes labels and no tokenizer"):
        workbench.wrap(model.model, model.tokenizer, kind="function")


def test_a_function_has_no_internals():
    function = workbench.wrap(pipeline(), name="mine")
    assert as_subject(function) is function
    for use in (
        lambda: workbench.lens(function, "a good film"),
        lambda: workbench.trace(function, "a good film"),
        lambda: workbench.doctor(function),
        lambda: workbench.surprisal(function, "a good film"),
        lambda: workbench.generate(function, "a good film"),
        lambda: workbench.patch(function, "a good film", "a bad film", "a", "b"),
        lambda: workbench.probe(function, "pos", limit=10),
        lambda: function.model,
    ):
        with pytest.raises(
            ModelError, match=r"this needs a model's internals.* mine is a function"
        ) as caught:
            use()
        assert "\n" not in str(caught.value)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = function.nothing


def test_the_identity_of_an_estimator_is_a_hash_of_what_it_learned():
    first, again = (workbench.wrap(pipeline()).identity() for _ in range(2))
    assert first == again
    assert set(first) == {"name", "kind", "labels", "content_hash"}
    other = make_pipeline(CountVectorizer(), LogisticRegression(C=0.5)).fit(TRAINING, ["p"] * 3 + ["n"] * 3)
    assert workbench.wrap(other, labels=LABELS).content_hash != first["content_hash"]
    assert workbench.wrap(pipeline(), labels=("b", "a")).content_hash != first["content_hash"]
    assert returning([]).content_hash is None


MODULE = """
import sys
from tests.unit.models.test_functions import pipeline
fitted = pipeline()
def predict(texts):
    return fitted.predict_proba(texts)
predict.labels = ("negative", "positive")
class Holder:
    inner = fitted
number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text(MODULE)
    (tmp_path / "own_broken.py").write_text("import no_such_module_anywhere\n")
    (tmp_path / "own_script.py").write_text("raise SystemExit('usage: own_script FILE')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("own_module", "own_broken", "own_script"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["own_module:fitted", "own_module:predict", "own_module:Holder.inner"])
def test_a_name_is_imported_from_the_current_folder(folder, name):
    function = load_function(name)
    assert function.name == name
    assert (function.probabilities(TEXTS) == pipeline().predict_proba(TEXTS)).all()
    assert sys.path[-1] == str(Path.cwd())  # last: nothing imported later is shadowed


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_modul:predict", "no module 'own_modul' in this folder or installed; did you mean 'own_module'"),
        (
            "own_module.sub:predict",
            "no module 'own_module.sub' in this folder|importing own_module.sub raised",
        ),
        ("own_module:predct", "module own_module has no 'predct'; did you mean 'predict'?"),
        ("own_module:Holder.iner", "module own_module has no 'Holder.iner'"),
        ("own_module:number", "own_module:number is a 'int', which cannot be called"),
        (
            "own_broken:predict",
            "importing own_broken raised ModuleNotFoundError: No module named 'no_such_module",
        ),
        ("own_script:predict", "importing own_script raised SystemExit: usage: own_script FILE"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_line(folder, name, message):
    with pytest.raises(ModelError, match=message) as caught:
        load_function(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["gpt2", "owner/name", "a:b/c", "C:\\model", "./a:b", ":f", "a:", "a:b:c", "1:2"]
)
def test_other_names_are_none_of_functions(name):
    assert not is_function_name(name)


def test_a_file_of_that_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_function_name("a:b")
    (tmp_path / "a:b").mkdir()
    assert not is_function_name("a:b")


def test_loading_a_model_never_imports_a_function(folder):
    with pytest.raises(ModelError, match="own_module:predict names a function: functions go with suites"):
        workbench.load("own_module:predict")
    assert "own_module" not in sys.modules


def test_the_hash_of_an_estimator_is_that_of_another_process():
    code = (
        "import workbench; from tests.unit.models.test_functions import pipeline; "
        "print(workbench.wrap(pipeline()).content_hash)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == workbench.wrap(pipeline()).content_hash
