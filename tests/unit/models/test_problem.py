"""What the outputs of a head mean: one label, several at once, or a number, everywhere that reads them."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from challenge_sets.suite import MFT, Suite, TestCase
from challenge_sets.suites.predict import predictor_for
from tests.model_folders import SIZES, framed_tokenizer
from tests.unit.tiny import loaded
from workbench.analysis.attacks import predictions
from workbench.analysis.faithfulness import measured
from workbench.analysis.saliency import Output, attribute
from workbench.analysis.saliency.targets import TargetRequest, ask
from workbench.errors import TaskError
from workbench.evaluate._requests import ClassificationRequest, HeadScores
from workbench.evaluate.doctor import examine
from workbench.evaluate.inference import InferenceOptions, stream_answers
from workbench.evaluate.tasks.task_types.toxicity import _toxic
from workbench.models import Kind
from workbench.models.problem import ProblemType, log_probabilities, problem_of

HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}
SUITE = Suite(
    name="s",
    labels={"no": ("LABEL_0",), "yes": ("LABEL_1",)},
    tests=(MFT("t", "c", (TestCase("c", "t", (("the cat",),), ("yes",)),)),),
)


def head(labels=3, problem=None):
    torch.manual_seed(0)
    config = BertConfig(**SIZES, **HEADS, initializer_range=0.3, num_labels=labels, problem_type=problem)
    return loaded(BertForSequenceClassification(config), Kind.CLASSIFIER, framed_tokenizer())


SEVERAL = {"labels": 2, "problem": "multi_label_classification"}
NUMBER = {"labels": 1}


def plain_logits(model, text):
    with torch.inference_mode():
        return model.model(**model.tokenizer(text, return_tensors="pt")).logits[0].double()


def test_probabilities_by_hand():
    """Of logits 0 and ln 3: 1/4 and 3/4 as alternatives, 1/2 and 3/4 each by itself."""
    logits = torch.tensor([0.0, float(torch.tensor(3.0).log())])
    one = log_probabilities(logits, ProblemType.ONE_LABEL).exp().tolist()
    several = log_probabilities(logits, ProblemType.LABEL_SET).exp().tolist()
    assert one == pytest.approx([0.25, 0.75])
    assert several == pytest.approx([0.5, 0.75])
    with pytest.raises(TaskError, match="has no probability"):
        log_probabilities(logits[:1], ProblemType.NUMBER)


@pytest.mark.parametrize(
    ("labels", "stated", "meant"),
    [
        (1, None, ProblemType.NUMBER),  # as transformers trains one output
        (1, "regression", ProblemType.NUMBER),
        (2, "regression", ProblemType.NUMBER),
        (1, "multi_label_classification", ProblemType.LABEL_SET),
        (3, "multi_label_classification", ProblemType.LABEL_SET),
        (3, None, ProblemType.ONE_LABEL),
    ],
)
def test_the_configuration_says_what_is_meant(labels, stated, meant):
    assert problem_of(head(labels, stated).model) is meant


def test_probability_of_one_of_several_labels_is_a_sigmoid():
    model = head(**SEVERAL)
    expected = plain_logits(model, "the cat sat").sigmoid()
    found = attribute(model, "the cat sat", "input_x_gradient", target=1, output="probability")
    assert found.value == pytest.approx(float(expected[1]), rel=1e-4)
    log = attribute(model, "the cat sat", "input_x_gradient", target=1, output="log_probability")
    assert log.value == pytest.approx(float(expected[1].log()), rel=1e-4)


def test_a_number_has_no_probability():
    model = head(**NUMBER)
    number = attribute(model, "the cat sat", "input_x_gradient").value
    assert number == pytest.approx(float(plain_logits(model, "the cat sat")[0]), rel=1e-4)
    for form in ("probability", "log_probability"):
        with pytest.raises(TaskError, match="predicts a number") as caught:
            attribute(model, "the cat sat", "input_x_gradient", output=form)
        assert "\n" not in str(caught.value)
    assert measured(ask(model, "the cat", TargetRequest()), model).output is Output.LOGIT
    assert measured(ask(head(), "the cat", TargetRequest()), head()).output is Output.PROBABILITY


@pytest.mark.parametrize("settings", [SEVERAL, NUMBER, {"labels": 2, "problem": "regression"}])
def test_tasks_of_one_label_refuse_other_heads(settings):
    model = head(**settings)
    with pytest.raises(TaskError, match=r"needs a head for one label of several.*problem_type"):
        list(
            stream_answers(
                model, [ClassificationRequest("the cat", problem=ProblemType.ONE_LABEL)], InferenceOptions()
            )
        )
    with pytest.raises(TaskError, match=r"one of several labels.*problem_type"):
        predictor_for(model, SUITE)
    with pytest.raises(TaskError, match=r"one of several labels.*problem_type"):
        predictions(model, ["the cat"])


@pytest.mark.parametrize("settings", [SEVERAL, {}])
def test_tasks_of_a_number_refuse_other_heads(settings):
    with pytest.raises(TaskError, match="needs a head for a number"):
        list(
            stream_answers(
                head(**settings),
                [ClassificationRequest("the cat", problem=ProblemType.NUMBER)],
                InferenceOptions(),
            )
        )


def test_a_judge_with_several_labels_rates_by_sigmoid():
    """Logits 0 and ln 3 of labels that do not exclude each other: toxic has probability 1/2, not 1/4."""
    scores = HeadScores((0.0, 1.0986123), ("toxic", "insult"), ProblemType.LABEL_SET)
    assert _toxic(scores) == pytest.approx(0.5)


def test_the_doctor_does_not_add_up_what_excludes_nothing():
    checks = {check.name: check for check in examine(head(**SEVERAL)).checks}
    assert checks["probabilities_sum"].status == "skip"
    assert checks["batch_size"].status == "pass"
