"""Saliency and attacks of functions: a bag of words in a logistic regression, whose log-odds are a sum over words.

So log p(positive) - log p(negative) of a text of different words is the intercept plus a coefficient for each word,
which is the word's Shapley value, its loss under occlusion, and its weight in a linear model of the words.
"""

from __future__ import annotations

import numpy as np
import pytest

import workbench
from tests.helpers import assert_near, run_command
from tests.unit.models.test_functions import LABELS, pipeline
from workbench.analysis.attacks import attack_all, hotflip, input_reduction, rewrites
from workbench.analysis.saliency import METHODS, SaliencyOptions, attribute_all
from workbench.errors import DataError, ModelError, TaskError
from workbench.models.functions import wrap_function

TEXT = "I love  this wonderful bad\nfilm!"
ANSWERS_ONLY = ["kernel_shap", "lime", "occlusion"]


@pytest.fixture(scope="module")
def fitted():
    return pipeline()


def coefficients(fitted, words):
    """Each word's coefficient for positive; 0 for what the vectorizer does not know."""
    vectorizer, regression = fitted
    found = [vectorizer.vocabulary_.get(word.lower().strip("!")) for word in words]
    return [0.0 if place is None else float(regression.coef_[0, place]) for place in found]


def test_methods_that_see_answers_alone_are_those_that_take_words_out():
    assert [name for name in METHODS if METHODS.get(name).answers_only] == ANSWERS_ONLY


@pytest.mark.parametrize("method", ANSWERS_ONLY)
def test_log_odds_of_a_bag_of_words_are_its_coefficients(fitted, method):
    found = workbench.attribute(
        fitted, TEXT, method, target="positive", contrast="negative", output="log_probability"
    )
    assert found.tokens == ("I", "love", "this", "wonderful", "bad", "film!")
    assert found.target == "log p(positive) - log p(negative)"
    assert_near(found.scores, coefficients(fitted, found.tokens), relative=1e-5)
    assert_near(found.value, fitted.decision_function([TEXT])[0], relative=1e-9)
    assert found.baseline == "left out"
    assert_near(found.baseline_value, fitted.decision_function([""])[0], relative=1e-9)


def test_occlusion_is_what_the_probability_loses_without_a_word(fitted):
    found = workbench.attribute(fitted, TEXT, "occlusion")
    without = [
        "love  this wonderful bad\nfilm!",
        "I this wonderful bad\nfilm!",
        "I love  wonderful bad\nfilm!",
        "I love  this bad\nfilm!",
        "I love  this wonderful film!",
        "I love  this wonderful bad",
    ]
    whole = fitted.predict_proba([TEXT])[0, 1]
    assert found.target == "p(positive)"
    assert found.target_note == "the likeliest class"
    assert found.value == whole
    assert found.scores == pytest.approx(whole - fitted.predict_proba(without)[:, 1], abs=1e-15)


def test_the_function_sees_the_text_as_it_is_and_without_words():
    given: list[str] = []

    def predict(texts):
        given.extend(texts)
        return [[0.5, 0.5]] * len(texts)

    attribute_all(wrap_function(predict, LABELS), [" a  b c ", "d"], "occlusion", targets=[0, 1])
    assert set(given) == {" a  b c ", " b c ", " a  c ", " a  b", "d", ""}
    given.clear()
    workbench.attribute(
        wrap_function(predict, LABELS), "a b. c d", "occlusion", options=SaliencyOptions(unit="sentence")
    )
    assert {"a b. c d", "c d", "a b."} <= set(given)


def test_texts_together_give_what_each_gives_alone(fitted):
    function = workbench.wrap(fitted)
    texts = [TEXT, "a bad book", "good"]
    together = attribute_all(function, texts, "lime")
    for text, found in zip(texts, together, strict=True):
        alone = workbench.attribute(function, text, "lime")
        assert found.scores.tolist() == alone.scores.tolist()
        assert found.value == alone.value


@pytest.mark.parametrize("method", [name for name in METHODS if name not in (*ANSWERS_ONLY, "random")])
def test_other_methods_name_those_that_functions_have(fitted, method):
    with pytest.raises(
        TaskError, match=rf"{method} needs a model's internals.*: kernel_shap, lime, occlusion"
    ):
        workbench.attribute(fitted, TEXT, method)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "positiv"}, "Pipeline has no class 'positiv'; did you mean 'positive'?"),
        ({"target": 2}, "class 2 is out of range: Pipeline has 2, 0 to 1"),
        ({"contrast": "negative"}, "contrast 'negative' needs a target"),
        ({"output": "logit"}, "output logit is nothing that Pipeline, a function, has"),
        ({"position": 1}, "position is nothing that Pipeline, a function, has"),
        ({"baseline": "mask"}, "baseline 'mask' is a model's; words of a function's texts are left out"),
    ],
)
def test_what_a_function_does_not_have_is_refused(fitted, options, message):
    with pytest.raises(TaskError) as caught:
        workbench.attribute(fitted, TEXT, "occlusion", **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "  \n", ("a", "b")])
def test_only_one_text_with_words_is_attributed(fitted, text):
    with pytest.raises((TaskError, DataError)):
        workbench.attribute(fitted, text, "occlusion")


def test_attribute_takes_a_function_by_name(tmp_path):
    name = "tests.unit.analysis.test_saliency_of_functions:PIPELINE"
    done = run_command("attribute", name, "a good film", "--method", "all", "--out", str(tmp_path / "a.html"))
    assert done.returncode == 0, done.stderr
    assert all(f"{method}: p(positive)" in done.stdout for method in ANSWERS_ONLY)
    for options, message in {
        ("--evaluate",): "this needs a model's internals",
        ("--each",): "this needs a model's internals",
        ("--method", "saliency"): "saliency needs a model's internals",
        ("--dtype", "float16"): "--dtype is of a model",
    }.items():
        done = run_command("attribute", name, "a good film", *options)
        assert done.returncode == 2
        assert message in done.stderr


PIPELINE = pipeline()


def test_attacks_without_gradients(fitted):
    function = workbench.wrap(fitted, name="mine")
    reduced = input_reduction(function, "such a good film")
    assert (reduced.changed, reduced.before, reduced.after) == ("good", 1, 1)
    (flipped, kept), estimates = attack_all(
        function,
        ["a good film", "a film"],
        lambda model, text: rewrites(model, text, rules=[("good", "bad")]),
    )
    assert (flipped.changed, flipped.success, flipped.after) == ("a bad film", True, 0)
    assert not kept.success
    assert estimates["success_rate"].value == 0.5
    with pytest.raises(ModelError, match=r"this needs a model's internals .* mine is a function"):
        hotflip(function, "a good film")


def test_zero_probabilities_have_a_finite_logarithm():
    sure = wrap_function(lambda texts: [[1.0, 0.0]] * len(texts), LABELS)
    found = workbench.attribute(sure, "a film", "occlusion", target="positive", output="log_probability")
    assert np.isfinite(found.value)
    assert found.scores.tolist() == [0.0, 0.0]
