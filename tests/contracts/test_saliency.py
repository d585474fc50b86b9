"""One suite for every registered saliency method: what it promises, it keeps on models of every kind."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.analysis.saliency_models import (
    TwoLayers,
    tiny_classifier,
    tiny_decoder_classifier,
    tiny_masked,
    toy,
)
from tests.unit.tiny import tiny_causal
from workbench.analysis.faithfulness import rank_agreement
from workbench.analysis.faithfulness_examine import shuffled
from workbench.analysis.saliency import (
    METHODS,
    Attribution,
    AttributionWarning,
    SaliencyOptions,
    attribute,
    attribute_all,
)
from workbench.models import Kind, LoadedModel

# few steps and samples, fixed, so that results are comparable to the last digit
FEW = SaliencyOptions(steps=4, samples=12)
TEXTS = ["the keys to the cabinet", "cats ran", "the cat sat on the mat and dogs ran ."]
MODELS = {
    "classifier": tiny_classifier,
    "causal": tiny_causal,
    "decoder classifier": tiny_decoder_classifier,
}
ALL = METHODS.names()


def scores(
    model: LoadedModel, method: str, texts: list[str], options: SaliencyOptions = FEW
) -> list[Attribution]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)  # six steps are too few to be complete
        targets = [1 if model.kind is Kind.CLASSIFIER else 7] * len(texts)
        return attribute_all(model, texts, method, targets=targets, options=options)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", ALL)
def test_scores_do_not_depend_on_batch_or_padding(method: str, kind: str) -> None:
    model = MODELS[kind]()
    together = scores(model, method, TEXTS)
    for text, batched in zip(TEXTS, together, strict=True):
        alone = scores(model, method, [text])[0]
        scale = max(1.0, float(np.abs(alone.scores).max()))
        np.testing.assert_allclose(batched.scores, alone.scores, atol=1e-5 * scale)


@pytest.mark.parametrize("method", ALL)
def test_there_is_a_finite_score_for_each_token_and_none_for_added_ones(method: str) -> None:
    found = scores(tiny_classifier(), method, TEXTS[:1])[0]
    assert len(found.scores) == len(found.tokens) == 7  # <s>, five words, </s>
    assert np.isfinite(found.scores).all()
    assert found.attributed == (False, *[True] * 5, False)
    if not METHODS.get(method).inside:
        assert found.scores[0] == found.scores[-1] == 0


@pytest.mark.parametrize("method", ALL)
def test_the_same_seed_gives_the_same_scores(method: str) -> None:
    first, again = (scores(tiny_classifier(), method, TEXTS[:1])[0] for _ in range(2))
    np.testing.assert_array_equal(first.scores, again.scores)
    other = scores(tiny_classifier(), method, TEXTS[:1], replace(FEW, seed=5))[0]
    assert bool(np.any(other.scores != first.scores)) is METHODS.get(method).seeded
    assert first.seed == (0 if METHODS.get(method).seeded else None)


@pytest.mark.parametrize("method", [m for m in ALL if METHODS.get(m).complete])
def test_complete_methods_sum_to_the_difference(method: str) -> None:
    exact = SaliencyOptions(tolerance=1e-3, most_steps=4096)
    for kind in (tiny_classifier, tiny_causal):
        found = scores(kind(), method, TEXTS[:2], exact)
        for one in found:
            assert one.baseline_value is not None
            assert one.delta == pytest.approx(one.scores.sum() - (one.value - one.baseline_value))
            assert abs(one.delta or 0) <= 1e-3 * max(abs(one.value - one.baseline_value), 0.1) * 1.01


@pytest.mark.parametrize("method", [m for m in ALL if METHODS.get(m).unused_is_zero])
def test_a_token_that_is_not_used_gets_zero(method: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)  # under noise sums are off
        found = attribute(
            toy(TwoLayers), TEXTS[0], method, target=1, options=replace(FEW, steps=None, most_steps=2048)
        )
    assert found.scores[2] == 0  # the model does not read position 2
    assert np.abs(found.scores[[0, 1, 3, 4]]).min() > 0


@pytest.mark.parametrize("method", [m for m in ALL if m != "value_zeroing"])
def test_a_method_is_blind_to_the_weights_only_if_it_says_so(method: str) -> None:
    # Adebayo et al. 2018: scores that stay when the weights are shuffled do not come from the model
    model = tiny_classifier()
    text = [TEXTS[2]]
    before = scores(model, method, text)[0]
    with shuffled(model, seed=1):
        after = scores(model, method, text)[0]
    if METHODS.get(method).blind:
        assert rank_agreement(before, after) == pytest.approx(1.0)
    else:
        assert rank_agreement(before, after) < 0.9
        assert np.abs(before.scores - after.scores).max() > 0


@pytest.mark.parametrize("method", ALL)
def test_the_weights_are_as_before_and_nothing_stays_hooked(method: str) -> None:
    model = tiny_masked()
    state = {name: value.clone() for name, value in model.model.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)
        found = attribute(model, "the <unk> to the cabinet", method, target="keys", options=FEW)
    assert found.target == "log p('keys')"
    assert all(bool((value == state[name]).all()) for name, value in model.model.state_dict().items())
    assert all(weight.requires_grad for weight in model.model.parameters())
    assert not any(
        m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.model.modules()
    )


def test_without_the_shuffling_the_weights_are_back() -> None:
    model = tiny_classifier()
    before = scores(model, "saliency", TEXTS)[0].scores
    with shuffled(model):
        pass
    np.testing.assert_array_equal(scores(model, "saliency", TEXTS)[0].scores, before)
