"""Methods against answers worked out by hand, and against a word that is known to decide."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pytest
import torch

from tests.unit.analysis.saliency_models import (
    TRIGGER,
    BagOfWords,
    TwoLayers,
    tiny_classifier,
    toy,
    trigger_model,
    trigger_reader,
    trigger_texts,
    trigger_toy,
)
from workbench.analysis.saliency import METHODS, AttributionWarning, SaliencyOptions, attribute, attribute_all
from workbench.models import LoadedModel

TEXT = "the keys to the cabinet"
NO_NOISE = SaliencyOptions(noise=0.0, tolerance=1e-4, most_steps=4096, samples=600)
# of a linear function all of these are (e_t - baseline) . w
LINEAR = [
    "integrated_gradients",
    "smoothgrad_integrated_gradients",
    "occlusion",
    "deeplift",
    "gradient_shap",
    "lime",
    "kernel_shap",
]


def parts(model: object, text: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings (T, D) of the text and of the pad token (D,)."""
    with torch.no_grad():
        ids = torch.tensor(model.tokenizer(text).input_ids)  # type: ignore[attr-defined]
        embed = model.model.embedding  # type: ignore[attr-defined]
        return embed(ids), embed(torch.tensor(0))


@pytest.mark.parametrize("method", LINEAR)
def test_a_linear_model_gives_each_token_its_own_term(method: str) -> None:
    model = toy(BagOfWords)
    embeddings, pad = parts(model, TEXT)
    expected = ((embeddings - pad) @ model.model.read.weight[1]).detach().numpy()
    expected[2] = 0.0  # the model does not read position 2
    samples = SaliencyOptions(noise=0.0, tolerance=1e-4, samples=5 if "smooth" in method else 200)
    found = attribute(model, TEXT, method, target=1, baseline="pad", options=samples)
    np.testing.assert_allclose(found.scores, expected, atol=2e-4)


def test_gradients_of_a_linear_model_are_its_weights() -> None:
    model = toy(BagOfWords)
    weight = model.model.read.weight[1].detach()
    norm = float(weight.norm())
    for method in ("saliency", "smoothgrad"):
        found = attribute(model, TEXT, method, target=1, options=NO_NOISE).scores
        np.testing.assert_allclose(found, [norm, norm, 0, norm, norm], rtol=1e-5)
    embeddings, _ = parts(model, TEXT)
    expected = (embeddings @ weight).numpy()
    expected[2] = 0.0
    found = attribute(model, TEXT, "input_x_gradient", target=1).scores
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_contrast_is_the_difference_of_two_targets() -> None:
    model = toy(BagOfWords)
    one, other, both = (
        attribute(model, TEXT, "integrated_gradients", target=t, contrast=c)
        for t, c in ((1, None), (0, None), (1, 0))
    )
    np.testing.assert_allclose(both.scores, one.scores - other.scores, atol=1e-5)
    assert both.value == pytest.approx(one.value - other.value, abs=1e-5)
    assert both.target == "logit(LABEL_1) - logit(LABEL_0)"


@pytest.mark.parametrize("method", ["integrated_gradients", "deeplift"])
def test_two_layers_give_what_the_hand_calculation_gives(method: str) -> None:
    # A ReLU unit is passed at the share a of the way where it switches: on a straight path its mean slope is
    # (relu(z) - relu(z0)) / (z - z0), which is also DeepLift's multiplier (rescale rule).
    model = toy(TwoLayers)
    embeddings, pad = parts(model, TEXT)
    used = torch.tensor([1.0, 1, 0, 1, 1])[:, None]
    hidden, read = model.model.hidden, model.model.read
    with torch.no_grad():
        z, z0 = (hidden((e * used).sum(0)) for e in (embeddings, pad.expand_as(embeddings)))
        slope = (torch.relu(z) - torch.relu(z0)) / (z - z0)
        terms = ((embeddings - pad) * used) @ hidden.weight.T  # (T, hidden)
        expected = (terms * slope) @ read.weight[1]
    found = attribute(model, TEXT, method, target=1, baseline="pad", options=NO_NOISE)
    np.testing.assert_allclose(found.scores, expected.numpy(), atol=2e-3)
    assert found.delta == pytest.approx(0.0, abs=2e-3)


def test_occlusion_of_two_layers_is_two_forward_passes() -> None:
    model = toy(TwoLayers)
    embeddings, pad = parts(model, TEXT)
    expected = []
    with torch.no_grad():
        mask = torch.ones(1, 5)
        whole = model.model(inputs_embeds=embeddings[None], attention_mask=mask).logits[0, 1]
        for position in range(5):
            changed = embeddings.clone()
            changed[position] = pad
            expected.append(
                whole - model.model(inputs_embeds=changed[None], attention_mask=mask).logits[0, 1]
            )
    found = attribute(model, TEXT, "occlusion", target=1, baseline="pad")
    np.testing.assert_allclose(found.scores, torch.stack(expected).numpy(), atol=1e-5)


def test_kernel_shap_of_few_tokens_is_the_mean_over_all_orders() -> None:
    # Shapley 1953: what a token adds when it comes in, averaged over the 120 orders in which five can come
    model, embed = tiny_classifier(), tiny_classifier().model.get_input_embeddings()
    ids = model.tokenizer(TEXT, return_tensors="pt").input_ids
    expected = np.zeros(ids.shape[1])

    def value(present: frozenset[int]) -> float:
        kept = torch.tensor([[i in present or i in (0, 6) for i in range(7)]])
        with torch.no_grad():
            return float(model.model(inputs_embeds=embed(torch.where(kept, ids, 0))).logits[0, 1])

    values = {s: value(s) for n in range(6) for s in map(frozenset, combinations(range(1, 6), n))}
    for order in permutations(range(1, 6)):
        for place, token in enumerate(order):
            before = frozenset(order[:place])
            expected[token] += (values[before | {token}] - values[before]) / 120
    found = attribute(model, TEXT, "kernel_shap", target=1, baseline="pad")
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)
    assert found.steps == 2**5
    assert found.delta == pytest.approx(0.0, abs=1e-5)


# Of a transformer trained until it is sure. The others have a model of their own below: gradients at the text times the
# embedding are near zero where the answer is saturated, and by the middle layer every position has read the word.
FIND_THE_TRIGGER = [
    "saliency",
    "integrated_gradients",
    "smoothgrad",
    "gradient_shap",
    "occlusion",
    "lime",
    "kernel_shap",
    "attention",
    "attention_rollout",
]


def share_first(method: str, model: LoadedModel, count: int = 20, layer: int | None = None) -> float:
    """How often the trigger is ranked first, over held-out texts that hold it where the models read."""
    texts, _ = trigger_texts(6 * count, seed=99)
    texts = [t for t in texts if TRIGGER in t.split() and t.split().index(TRIGGER) != 2][:count]
    few = SaliencyOptions(
        samples=10 if method.startswith("smoothgrad") or method == "gradient_shap" else 100, layer=layer
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)  # of sums; here the order counts
        found = attribute_all(model, texts, method, targets=[1] * len(texts), options=few)
    return float(np.mean([a.tokens[a.order()[0]] == TRIGGER for a in found]))


@pytest.mark.parametrize("method", FIND_THE_TRIGGER)
def test_the_planted_word_is_ranked_first(method: str) -> None:
    assert share_first(method, trigger_model()) >= 0.95


# A sum of embeddings has the same gradient at every position, and no attention.
NOT_IN_A_BAG = {"saliency", "smoothgrad", "attention", "attention_rollout"}


@pytest.mark.parametrize(
    "method", [*(m for m in FIND_THE_TRIGGER if m not in NOT_IN_A_BAG), "input_x_gradient", "deeplift"]
)
def test_without_saturation_gradients_at_the_text_rank_it_first_too(method: str) -> None:
    assert share_first(method, trigger_toy()) >= 0.95


@pytest.mark.parametrize("method", [name for name in METHODS if name != "random"])
def test_in_a_model_that_is_less_sure_and_reads_late_every_method_ranks_it_first(method: str) -> None:
    layer = 0 if method.startswith("layer") else None
    assert share_first(method, trigger_reader(), layer=layer) >= 0.95


@pytest.mark.parametrize("model", [trigger_model, trigger_reader, trigger_toy])
def test_random_scores_do_not_find_the_planted_word(model: Callable[[], LoadedModel]) -> None:
    assert share_first("random", model(), count=40) < 0.5  # one word in 5 to 9: 14 % by chance


def test_before_a_norm_input_x_gradient_is_what_the_other_summands_get_with_the_sign_turned() -> None:
    """A norm of (word + position + type) does not change with the sum's length, so (sum . gradient) is 0 (Euler)."""
    model = tiny_classifier()
    vectors = model.model.bert.embeddings
    inputs = model.tokenizer(TEXT, return_tensors="pt")
    words = vectors.word_embeddings(inputs.input_ids).detach().requires_grad_()
    logits = model.model(inputs_embeds=words, attention_mask=inputs.attention_mask).logits
    (gradient,) = torch.autograd.grad(logits[0, 1], words)
    others = vectors.position_embeddings.weight[: words.shape[1]] + vectors.token_type_embeddings.weight[0]
    expected = -(others * gradient[0]).sum(-1).detach().numpy()
    found = attribute(model, TEXT, "input_x_gradient", target=1)
    np.testing.assert_allclose(found.scores[1:-1], expected[1:-1], atol=1e-5)
    assert np.abs(found.scores).max() > 1e-3


USUAL_NAMES = {
    "saliency", "input_x_gradient", "integrated_gradients", "smoothgrad", "smoothgrad_integrated_gradients", "deeplift",
    "layer_integrated_gradients", "layer_conductance", "occlusion", "lime", "kernel_shap", "gradient_shap", "attention",
    "attention_rollout", "value_zeroing", "attention_gradient", "random",
}  # fmt: skip


def test_every_method_is_registered_under_its_usual_name() -> None:
    assert set(METHODS) == USUAL_NAMES


def test_a_first_token_that_is_kept_gets_no_score_and_stays_in_the_baseline() -> None:
    model = toy(BagOfWords)
    embeddings, pad = parts(model, TEXT)
    expected = ((embeddings - pad) @ model.model.read.weight[1]).detach().numpy()
    expected[[0, 2]] = 0.0  # kept; not read by the model
    found = attribute(model, TEXT, target=1, baseline="pad", options=SaliencyOptions(keep_first=True))
    np.testing.assert_allclose(found.scores, expected, atol=2e-4)
    assert found.attributed == (False, True, True, True, True)
    assert found.delta == pytest.approx(0, abs=1e-3)
