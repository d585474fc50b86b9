"""Sound models of every kind pass; what does not apply to a kind is skipped, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

from tests.unit.doctor import models
from tests.unit.models.tiny import encoder_decoder
from workbench.evaluate.doctor import CHECKS, _examine, _internals, examine, self_check
from workbench.models import Kind, LoadedModel
from workbench.models.configuration import DecoderConfig
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.generation import TransformerEncoderDecoderForConditionalGeneration
from workbench.models.parts import AttentionConfig, DepthConfig, FeedForwardConfig, FormConfig, PositionConfig

NOT_GENERATING = {"causal_attention", "causal_outputs", "cached_generation"}
NOT_SCORED = NOT_GENERATING | {"scorer_log_probabilities"}


def bert_encoder() -> LoadedModel:
    return models.bert(transformers.BertModel, Kind.ENCODER)


def bert_classifier() -> LoadedModel:
    return models.bert(transformers.BertForSequenceClassification, Kind.CLASSIFIER)


def question_answering() -> LoadedModel:
    return models.bert(transformers.BertForQuestionAnswering, Kind.CLASSIFIER, labels=2)


def multiple_choice() -> LoadedModel:
    return models.bert(transformers.BertForMultipleChoice, Kind.CLASSIFIER)


def llama_classifier() -> LoadedModel:
    subject = models.llama(transformers.LlamaForSequenceClassification)
    return models.loaded(subject.model, Kind.CLASSIFIER)


def t5_classifier() -> LoadedModel:
    return models.t5(transformers.T5ForSequenceClassification, Kind.CLASSIFIER)


def t5_encoder_decoder() -> LoadedModel:
    return models.t5(transformers.T5Model, Kind.ENCODER)


def reformer() -> LoadedModel:
    """A causal model that keeps no cache, whose chunks are shorter than the texts."""
    torch.manual_seed(0)
    config = DecoderConfig(
        vocab_size=len(models.VOCABULARY),
        hidden_size=32,
        attention=AttentionConfig(heads=4),
        form=FormConfig(kind="reformer", block=8, buckets=4, rounds=2),
        positions=PositionConfig(max_length=64),
        feed_forward=FeedForwardConfig(size=48),
        depth=DepthConfig(layers=2),
        initializer_range=0.2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return models.loaded(TransformerDecoderForCausalLM(config), Kind.CAUSAL)


def sinusoidal_encoder_decoder() -> LoadedModel:
    """Positions that are computed, not learned, and count the padding all the same."""
    torch.manual_seed(0)
    changes = {"vocab_size": len(models.VOCABULARY), "initializer_range": 0.2}
    config = encoder_decoder(**changes, positions=PositionConfig(kind="sinusoidal"))
    return models.loaded(TransformerEncoderDecoderForConditionalGeneration(config), Kind.SEQ2SEQ)


# What is skipped follows from the kind: only causal and seq2seq models generate and look back only,
# those and masked ones give texts log-probabilities, an encoder has no probabilities; BART's positions count the
# padding, BERT's pooler reads the first place, T5's classifier decodes the padded text; Llama's reads the last token,
# wherever it is.
EXPECTED_SKIPS = [
    (models.llama, set()),
    (models.gpt2, set()),
    (reformer, {"cached_generation"}),
    (models.bert, NOT_GENERATING),
    (models.roberta, NOT_GENERATING),
    (models.t5, set()),
    (models.bart, {"left_padding"}),
    (sinusoidal_encoder_decoder, {"left_padding"}),
    (bert_encoder, NOT_SCORED | {"probabilities_sum"}),
    (bert_classifier, NOT_SCORED | {"left_padding"}),
    (question_answering, NOT_SCORED),
    (multiple_choice, NOT_SCORED | {"left_padding"}),
    (llama_classifier, NOT_SCORED),
    (t5_classifier, NOT_SCORED | {"left_padding"}),
    (t5_encoder_decoder, NOT_SCORED | {"probabilities_sum"}),
]


@pytest.mark.parametrize(
    ("make", "skipped"), EXPECTED_SKIPS, ids=lambda value: getattr(value, "__name__", "")
)
def test_passes(make: Callable[[], LoadedModel], skipped: set[str]) -> None:
    report = examine(make())
    statuses = {check.name: str(check.status) for check in report.checks}
    assert statuses == {name: "skip" if name in skipped else "pass" for name in CHECKS}, (
        report.to_frame().to_string()
    )
    assert report.verdict == "pass"


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_leaves_the_model_as_it_was(implementation: str) -> None:
    subject = models.llama()
    subject.model.set_attn_implementation(implementation)
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    examine(subject)
    assert subject.config._attn_implementation == implementation
    assert subject.config.output_attentions is False
    assert not any(module._forward_pre_hooks for module in subject.model.modules())
    hooks = [hook for module in subject.model.modules() for hook in module._forward_hooks.values()]
    assert all(
        hook.__module__.startswith("transformers.") for hook in hooks
    )  # how it collects attentions itself
    assert not any(parameter.grad is not None for parameter in subject.model.parameters())
    after = subject.model.state_dict()
    assert all(
        value.dtype == torch.float32 and torch.equal(value, after[name]) for name, value in before.items()
    )


def test_what_was_found_holds_until_the_model_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, seen = models.llama(transformers.LlamaForCausalLM), []
    monkeypatch.setattr(_examine, "examine", lambda model, progress: seen.append(model) or examine(model))

    def verdict() -> dict[str, Any]:
        check = self_check(subject, wanted=True)
        assert check is not None
        return check()

    first = verdict()
    assert verdict() == first == examine(subject).to_dict()
    assert len(seen) == 1
    with torch.no_grad():
        next(subject.model.parameters()).mul_(2)
    verdict()
    assert len(seen) == 2
    for factor in (1.0, float("nan")):  # two hooks in turn
        with subject.model.lm_head.register_forward_hook(lambda *call, factor=factor: call[-1] * factor):
            found = verdict()
    assert len(seen) == 4
    assert found["verdict"] == "fail"
    subject.model.lm_head.forward = lambda hidden: hidden[..., :1] * float("nan")
    assert verdict()["verdict"] == verdict()["verdict"] == "fail"
    assert len(seen) == 6  # what failed is examined again


def test_restores_the_attention_when_the_model_breaks_down() -> None:
    subject = models.llama()
    subject.model.lm_head.forward = lambda hidden: 1 / 0
    report = examine(subject)
    broken = next(check for check in report.checks if check.name == "eager_equals_sdpa")
    assert (broken.status, broken.detail) == ("fail", "ZeroDivisionError: division by zero")
    assert subject.config._attn_implementation == "sdpa"


def test_large_models_get_no_float64_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.evaluate.doctor._internals._LARGEST", 1000)
    gradient = next(check for check in examine(models.llama()).checks if check.name == "gradient")
    assert gradient.status == "skip"
    assert "parameters" in gradient.detail


def test_bfloat16_passes_with_wider_tolerances() -> None:
    sound = models.llama()
    narrow = models.loaded(sound.model.bfloat16(), Kind.CAUSAL)
    object.__setattr__(narrow, "dtype", torch.bfloat16)
    report = examine(narrow)
    assert report.verdict == "pass", report.to_frame().to_string()
    batch = next(check for check in report.checks if check.name == "right_padding")
    assert "tolerance 0.06 of the largest output" in batch.detail


def test_a_kink_within_the_step_is_no_wrong_gradient() -> None:
    """f(w) = max(w, 1e-6) + w at w = 0: the derivative is 1, the difference at step 1e-5 is 1.45, at 1e-7 it is 1."""
    weight = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)

    def kinked() -> torch.Tensor:
        return weight.clamp(min=1e-6).sum() + weight.sum()

    wide = _internals._central_differences(weight, [(0, 0)], kinked, 1e-5)
    assert wide.item() == pytest.approx(1.45)
    assert _internals._compare(weight, kinked, [0]).status == "pass"
