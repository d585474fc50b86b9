"""The same numbers as Captum, called its own way: from token ids, hooked at the word embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.analysis.saliency_models import tiny_classifier
from workbench.analysis.saliency import AttributionWarning, SaliencyOptions, attribute

captum = pytest.importorskip("captum.attr", reason="pip install captum")

TEXT = "the keys to the cabinet"


def parts() -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Model, ids and baseline ids (specials kept), their embeddings and those of the baseline."""
    model = tiny_classifier()
    ids = model.tokenizer(TEXT, return_tensors="pt").input_ids
    baseline = ids.clone()
    baseline[:, 1:-1] = 0
    embed = model.model.get_input_embeddings()
    return model.model, ids, baseline, embed(ids).detach(), embed(baseline).detach()


def forward(embeddings: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = tiny_classifier().model(inputs_embeds=embeddings).logits[:, 1]
    return logits


def ours(method: str, **told: Any) -> np.ndarray:
    return attribute(
        tiny_classifier(), TEXT, method, target=1, baseline="pad", options=SaliencyOptions(**told)
    ).scores


def inner(values: torch.Tensor) -> np.ndarray:
    """Of the text's own tokens: Captum scores special tokens too."""
    return values.detach().double().numpy()[0, 1:-1]


def test_integrated_gradients_with_the_same_steps() -> None:
    model, ids, baseline, _, _ = parts()
    layer = captum.LayerIntegratedGradients(
        lambda i: model(input_ids=i).logits, model.bert.embeddings.word_embeddings
    )
    expected = layer.attribute(ids, baseline, target=1, n_steps=50).sum(-1)
    found = ours("integrated_gradients", steps=50, tolerance=1e9)
    np.testing.assert_allclose(found[1:-1], inner(expected), atol=1e-5)


def test_gradients() -> None:
    _, _, _, embeddings, _ = parts()
    expected = captum.Saliency(forward).attribute(embeddings.clone().requires_grad_(), abs=False)
    np.testing.assert_allclose(ours("saliency")[1:-1], inner(expected.norm(dim=-1)), atol=1e-5)
    products = captum.InputXGradient(forward).attribute(embeddings.clone().requires_grad_()).sum(-1)
    np.testing.assert_allclose(ours("input_x_gradient")[1:-1], inner(products), atol=1e-5)


def test_occlusion_is_feature_ablation_of_tokens() -> None:
    _, _, _, embeddings, baseline = parts()
    groups = torch.arange(7)[None, :, None].expand_as(embeddings)
    expected = captum.FeatureAblation(forward).attribute(embeddings, baseline, feature_mask=groups)[..., 0]
    np.testing.assert_allclose(ours("occlusion")[1:-1], inner(expected), atol=1e-5)


def test_smoothgrad_is_the_mean_of_captums_gradients_at_the_same_draws() -> None:
    _, _, _, embeddings, _ = parts()
    noise = torch.randn(8, 7, 32, generator=torch.Generator().manual_seed(0))
    draws = embeddings + 0.15 * embeddings.std() * noise
    expected = (
        captum.Saliency(forward)
        .attribute(draws.requires_grad_(), abs=False)
        .mean(0, keepdim=True)
        .norm(dim=-1)
    )
    np.testing.assert_allclose(ours("smoothgrad", samples=8)[1:-1], inner(expected), atol=1e-5)


def test_deeplift() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = tiny_classifier().model

        def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.model(inputs_embeds=embeddings).logits
            return logits

    _, _, _, embeddings, baseline = parts()
    with pytest.warns(UserWarning, match="hooks"):  # that it sets and removes some
        expected = captum.DeepLift(Net()).attribute(embeddings.requires_grad_(), baseline, target=1).sum(-1)
    # through softmax and layer norm DeepLift's rules do not hold, so its scores sum to something else
    with pytest.warns(AttributionWarning, match="do not sum to the difference from the baseline"):
        found = ours("deeplift")
    np.testing.assert_allclose(found[1:-1], inner(expected), atol=1e-5)


def test_gradient_shap_with_the_stated_noise() -> None:
    class Net(torch.nn.Module):
        def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
            return forward(embeddings)

    _, _, _, embeddings, baseline = parts()
    np.random.seed(3)  # Captum draws its points from NumPy
    torch.manual_seed(3)
    expected = captum.GradientShap(Net()).attribute(
        embeddings, baseline, n_samples=8, stdevs=0.15 * float(embeddings.std())
    )
    found = ours("gradient_shap", samples=8, seed=3, tolerance=1e9)
    np.testing.assert_allclose(found[1:-1], inner(expected.sum(-1)), atol=1e-5)


@pytest.mark.parametrize("method", ["layer_conductance", "layer_integrated_gradients"])
def test_layers_that_give_more_than_states_are_explained_and_left_as_they_were(method) -> None:
    from workbench.models import load

    model = load("planted-sentiment-encoder", dtype="float32")
    before = model.model(**model.tokenizer("a rude waiter", return_tensors="pt")).logits
    found = attribute(
        model, "a rude waiter", method, target="negative", options=SaliencyOptions(tolerance=0.01)
    )
    assert abs(found.delta) <= 0.01 * abs(found.value - found.baseline_value)
    assert torch.equal(model.model(**model.tokenizer("a rude waiter", return_tensors="pt")).logits, before)
