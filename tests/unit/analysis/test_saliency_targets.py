"""Targets of every kind, how pieces are treated, and the one line that a wrong one gets."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BartForConditionalGeneration

import workbench
from tests.helpers import assert_near
from tests.model_folders import save_bart
from tests.unit.analysis.saliency_models import tiny_classifier, tiny_masked
from tests.unit.tiny import loaded, tiny_causal
from workbench.analysis.generation import generate_steps
from workbench.analysis.saliency import (
    Attribution,
    AttributionWarning,
    SaliencyOptions,
    attribute,
    attribute_generated,
)
from workbench.errors import ConfigError, ModelError, NumericsError, TaskError
from workbench.figures.saliency import attribution_view, generation_map
from workbench.models import Kind, LoadedModel

TEXT = "the keys to the cabinet"


def next_log_probabilities(model: LoadedModel, text: str) -> torch.Tensor:
    with torch.no_grad():
        logits = model.model(torch.tensor([model.tokenizer(text).input_ids])).logits[0, -1]
    return torch.log_softmax(logits, -1)


def test_a_contrast_of_next_tokens_is_the_difference_of_their_log_probabilities() -> None:
    model = tiny_causal()
    log_p = next_log_probabilities(model, TEXT)
    are, is_ = (model.tokenizer(word).input_ids[0] for word in ("are", "is"))
    found = attribute(model, TEXT, "saliency", target="are", contrast="is")
    assert found.value == pytest.approx(float(log_p[are] - log_p[is_]), abs=1e-5)
    assert found.target == "log p('are') - log p('is')"


def test_pieces_of_a_continuation_are_added_each_after_those_before() -> None:
    model = tiny_causal()
    are, on = (model.tokenizer(word).input_ids[0] for word in ("are", "on"))
    expected = next_log_probabilities(model, TEXT)[are] + next_log_probabilities(model, f"{TEXT} are")[on]
    found = attribute(model, TEXT, "occlusion", target=" are on")
    assert found.value == pytest.approx(float(expected), abs=1e-5)
    assert "2 pieces" in found.target_note
    assert len(found.tokens) == 5  # only the text is explained


def test_targets_of_different_length_can_be_contrasted() -> None:
    one, other, both = (
        attribute(tiny_causal(), TEXT, "occlusion", target=t, contrast=c)
        for t, c in ((" are on", None), (" is", None), (" are on", " is"))
    )
    np.testing.assert_allclose(both.scores, one.scores - other.scores, atol=1e-4)


def test_a_probability_is_the_exponential_of_the_log_probability() -> None:
    log, plain = (
        attribute(tiny_causal(), TEXT, "saliency", target="are", output=o)
        for o in ("log_probability", "probability")
    )
    assert plain.value == pytest.approx(math.exp(log.value), rel=1e-5)


def test_a_masked_word() -> None:
    model = tiny_masked()
    found = attribute(model, "the <unk> to the cabinet", "saliency", target="keys")
    ids = torch.tensor([model.tokenizer("the <unk> to the cabinet").input_ids])
    with torch.no_grad():
        log_p = torch.log_softmax(model.model(ids).logits[0, 2], -1)
    assert found.value == pytest.approx(float(log_p[model.tokenizer("keys").input_ids[1]]), abs=1e-5)
    assert found.scores[2] == 0  # the blank itself


def tiny_bart(tmp_path: object) -> LoadedModel:
    from tests.model_folders import framed_tokenizer

    folder = save_bart(tmp_path)  # type: ignore[arg-type]
    return loaded(BartForConditionalGeneration.from_pretrained(folder), Kind.SEQ2SEQ, framed_tokenizer())


def test_written_tokens_of_an_encoder_decoder_add_up(tmp_path: object) -> None:
    model = tiny_bart(tmp_path)
    whole = attribute(model, TEXT, "occlusion", target="cats ran")
    each = [attribute(model, TEXT, "occlusion", target="cats ran", position=i) for i in range(3)]  # with </s>
    np.testing.assert_allclose(sum(a.scores for a in each), whole.scores, atol=1e-4)
    for method in (
        "attention",
        "attention_rollout",
        "value_zeroing",
        "attention_gradient",
        "integrated_gradients",
    ):
        assert np.isfinite(attribute(model, TEXT, method, target="cats ran").scores).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "zebra"}, "not in the vocabulary"),
        ({"target": 999}, "ids go from 0"),
        ({"contrast": "is"}, "needs a target"),
        ({"target": "are", "method": "integrated_gradient"}, "did you mean 'integrated_gradients'"),
        ({"target": "are", "baseline": "mask"}, "no mask token"),
        ({"target": "are", "baseline": "paddy"}, "unknown baseline"),
        ({"target": "are", "output": "odds"}, "unknown output"),
        ({"target": "are", "baseline": np.zeros(3)}, "shape"),
    ],
)
def test_what_a_decoder_cannot_be_asked(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(TaskError, match=message) as caught:
        attribute(tiny_causal(), TEXT, **{"method": "saliency", **arguments})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_what_others_cannot_be_asked() -> None:
    with pytest.raises(TaskError, match="no class 'LABEL_7'"):
        attribute(tiny_classifier(), TEXT, "saliency", target="LABEL_7")
    with pytest.raises(TaskError, match="write <unk> where the word is"):
        attribute(tiny_masked(), TEXT, "saliency", target="keys")
    model = tiny_classifier()
    with pytest.raises(TaskError, match="without a head"):
        attribute(loaded(model.model.bert, Kind.ENCODER, model.tokenizer), TEXT, "saliency")
    with pytest.raises(ConfigError, match="allowed: none, sum, max"):
        attribute(tiny_causal(), TEXT, "saliency", normalise="most")


def test_the_cost_of_a_dear_method_is_stated_and_agreed_to() -> None:
    model = tiny_causal(positions=4096)
    with pytest.raises(
        TaskError, match=r"kernel_shap takes 4,256 passes over 2,000 tokens, 8,512,000 in all.*--yes"
    ):
        attribute(model, " ".join(["the cat"] * 1000), "kernel_shap", target="are")


@pytest.mark.parametrize("method", ["integrated_gradients", "kernel_shap", "lime", "value_zeroing", "random"])
def test_a_text_of_one_token(method: str) -> None:
    found = attribute(tiny_causal(), "cats", method, target="are", options=SaliencyOptions(most_steps=2048))
    assert len(found.scores) == 1
    if method in ("integrated_gradients", "kernel_shap"):  # all of the difference is this token's
        assert found.scores[0] == pytest.approx(found.value - (found.baseline_value or 0), abs=0.2)


def broken(change: type[nn.Module]) -> LoadedModel:
    model = tiny_causal()
    model.model.model.layers[1].mlp = change()
    return model


class NoGradient(nn.Module):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.detach()


class NanGradient(nn.Module):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(hidden - hidden.detach())  # sqrt(0): its slope is infinite


def test_nan_gradients_name_the_layer() -> None:
    with pytest.raises(NumericsError, match=r"layers\.1"):
        attribute(broken(NanGradient), TEXT, "saliency", target="are")


def test_a_model_without_gradients_names_the_layer() -> None:
    model = tiny_causal()
    model.model.model.norm = NoGradient()
    with pytest.raises(ModelError, match=r"model\.norm \(NoGradient\)"):
        attribute(model, TEXT, "saliency", target="are")
    assert np.isfinite(attribute(model, TEXT, "occlusion", target="are").scores).all()


def test_words_of_signed_scores_are_sums_and_shares_sum_to_one() -> None:
    found = attribute(tiny_causal(), TEXT, "occlusion", target="are")
    assert found.words().aggregation == "sum"
    assert np.abs(found.normalised("sum").scores).sum() == pytest.approx(1.0)
    assert np.abs(found.normalised("max").scores).max() == pytest.approx(1.0)
    assert list(found.to_frame()["token"]) == list(found.tokens)


def test_too_few_steps_are_said() -> None:
    with pytest.warns(AttributionWarning, match="raise steps"):
        found = attribute(tiny_causal(), TEXT, target="are", options=SaliencyOptions(steps=2, tolerance=1e-6))
    assert isinstance(found, Attribution)
    assert found.steps == 2


def test_the_drawings_hold_every_token_and_escape_it() -> None:
    found = attribute(tiny_classifier(), "the <script> cat", "random", target=1)
    assert "&lt;s&gt;" in found.html()
    assert "<script> cat" not in found.html()
    assert found.html() == attribution_view(found).html
    assert "colorbox" in found.latex()
    assert found.figure().draw().axes


def test_each_written_token_is_explained_as_if_it_alone_were_asked(tmp_path: object) -> None:
    model = tiny_bart(tmp_path)
    found, written = attribute_generated(model, TEXT, "input_x_gradient", target="cats sat")
    assert len(found) == len(written) >= 2
    alone = attribute(model, TEXT, "input_x_gradient", target="cats sat", position=0)
    assert np.allclose(found[0].scores, alone.scores, atol=1e-6)
    assert generation_map(found, written).to_frame().shape[0] == len(written) * (len(found[0].tokens) + 2)
    generation = generate_steps(model, TEXT, 6)
    found, written = attribute_generated(model, TEXT, "occlusion", generation=generation)
    assert written == generation.tokens
    assert np.allclose([a.entropy for a in found], [step.entropy for step in generation.steps], atol=1e-5)


def test_each_token_of_a_decoder_is_explained_given_those_before() -> None:
    model = tiny_causal()
    found, written = attribute_generated(model, TEXT, "occlusion", target=" cats sat")
    assert len(found) == len(written) >= 2
    first = attribute(model, TEXT, "occlusion", target=int(model.tokenizer.convert_tokens_to_ids(written[0])))
    assert np.allclose(found[0].scores, first.scores, atol=1e-6)
    whole = attribute(model, TEXT, "occlusion", target=" cats sat")
    assert sum(a.value for a in found) == pytest.approx(whole.value, abs=1e-5)  # log-probabilities add up
    prompt = len(whole.tokens)
    assert np.allclose(sum(a.scores[:prompt] for a in found), whole.scores, atol=1e-5)
    generated, tokens = attribute_generated(model, TEXT, "occlusion")
    steps = generate_steps(model, TEXT, 12).steps
    assert tokens == tuple(step.token for step in steps)  # what was generated, not what its text is read as
    assert np.allclose(
        [math.exp(a.value) for a in generated], [step.probability for step in steps], atol=1e-6
    )
    assert np.allclose([a.entropy for a in generated], [step.entropy for step in steps], atol=1e-5)
    drawn = generation_map(generated, tokens)
    shown = drawn.to_frame().groupby("source")["value"].apply(list)
    assert np.allclose(shown["entropy"], [step.entropy for step in steps], atol=1e-5)
    assert np.allclose(shown["probability"], [step.probability for step in steps], atol=1e-5)
    assert drawn.draw().axes


@pytest.mark.parametrize("method", ["occlusion", "input_x_gradient", "integrated_gradients"])
def test_a_decoder_s_earlier_tokens_are_sources_like_the_text(method: str) -> None:
    """As when the same ids stand in the text: a tokenizer of words reads what was generated as it is."""
    model = tiny_causal()
    found, written = attribute_generated(model, TEXT, method, target=" cats sat on")
    texts = [TEXT, f"{TEXT} cats", f"{TEXT} cats sat"]
    assert written == ("cats", "sat", "on")
    for one, text, token in zip(found, texts, written, strict=True):
        alone = attribute(model, text, method, target=int(model.tokenizer.convert_tokens_to_ids(token)))
        assert one.tokens == alone.tokens
        assert one.attributed == alone.attributed
        assert_near(one.scores, alone.scores)
        assert one.value == pytest.approx(alone.value, abs=1e-6)
    assert np.abs(found[2].scores[-2:]).min() > 0
    assert len(found[2].words().tokens) == len(found[2].tokens)  # generated tokens stay as they are
    shown = generation_map(found, written).to_frame()
    later = shown[(shown["generated"] == "cats") & shown["source"].isin(["cats", "sat"])]["value"]
    assert later.isna().all()
    with pytest.raises(ConfigError, match="give one for each"):
        generation_map([found[0], attribute(model, "dogs ran", method)], written[:2])


def test_a_decoder_s_first_token_with_the_largest_score_is_noted() -> None:
    model, said = tiny_causal(), "the first token scores highest"
    found = [attribute(model, TEXT, "occlusion", target=word) for word in range(4, 16)]
    first = [a.attributed[0] and abs(a.scores[0]) == abs(a.scores).max() for a in found]
    assert [a.note.startswith(said) for a in found] == first
    assert {True, False} == set(first)
    noted = found[first.index(True)]
    assert said in repr(noted)
    assert said in noted.html()
    keeping = SaliencyOptions(keep_first=True)
    kept = attribute(model, TEXT, "occlusion", target=4 + first.index(True), options=keeping)
    assert kept.note == ""
    assert attribute(model, TEXT, "saliency", target=4).note == "", "takes nothing out"


def test_a_model_that_does_not_generate_is_refused(tmp_path: object) -> None:
    with pytest.raises(ModelError, match="attributing each generated token"):
        attribute_generated(workbench.load("sentiment-encoder"), TEXT)
