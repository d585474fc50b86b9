"""Patching: everything patched is the clean run, one patch is the plain computation, estimates are derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.trace import tiny
from workbench.analysis import patching
from workbench.analysis.patching import (
    Patch,
    PatchSite,
    activation_patching,
    attribution_patching,
    component,
    head_paths,
    mean_ablation,
    mean_effects,
    patch_pair,
    patched_values,
    path_patching,
)
from workbench.errors import DataError, ModelError, TraceError
from workbench.trace import Edit, Site, intervene

CLEAN, CORRUPTED = "the cat sat on the", "the dog sat on the"


def pair_of(build: Any = tiny.llama, **options: Any) -> patching.PatchPair:
    texts = (CLEAN, CORRUPTED)
    model = build()
    if model.kind == "masked":
        texts = ("the cat [MASK] on the", "the dog [MASK] on the")
    labels = ("LABEL_1", "LABEL_0") if model.kind == "classifier" else ("mat", "house")
    return patch_pair(model, *texts, *labels, **options)


@pytest.mark.parametrize(
    "build",
    [tiny.llama, tiny.bert, tiny.albert, tiny.t5, lambda: tiny.bert("AutoModelForSequenceClassification")],
)
def test_everything_patched_is_the_clean_run_exactly_and_nothing_the_corrupted(build: Any) -> None:
    pair = pair_of(build)
    every = [(Patch(PatchSite.RESIDUAL, layer),) for layer in range(pair.layers)]
    assert patched_values(pair, every, batch_rows=1).tolist() == [1.0] * pair.layers
    assert patched_values(pair, [()], batch_rows=1).tolist() == [0.0]


@pytest.mark.parametrize("build", [tiny.llama, tiny.bert, tiny.albert, tiny.t5, tiny.deberta])
@pytest.mark.parametrize("site", [PatchSite.RESIDUAL, PatchSite.MLP_OUT])
def test_batches_and_skipped_layers_change_nothing(build: Any, site: PatchSite) -> None:
    """Each cell against a pass of its own through all layers, with the clean value put in by hand."""
    pair = pair_of(build)
    found = activation_patching(pair, site, batch_rows=5)
    clean = pair.activations(site)
    for layer, position in ((0, 1), (1, 4), (pair.layers - 1, 4)):

        def put(values: torch.Tensor, layer: int = layer, position: int = position) -> torch.Tensor:
            return clean[layer][:, [position]]

        edit = Edit(site.traced, layer, put, positions=(position,), stack=pair.stack)
        with torch.no_grad(), intervene(pair.model, edit):
            logits = pair.model.model(**pair.corrupted.inputs).logits[:, pair.place]
        expected = pair.normalised(float(pair.metric(logits)))
        assert found.values[layer, position] == pytest.approx(expected, abs=1e-4)


def test_patching_the_last_layer_brings_the_answer_back() -> None:
    """The answer is read off the last position, so after the last layer that one restores all and others nothing."""
    found = activation_patching(pair_of())
    np.testing.assert_allclose(found.values[-1], [0, 0, 0, 0, 1], atol=1e-4)
    np.testing.assert_allclose(found.values[:, 0], 0, atol=1e-4)  # nothing differs before the changed token
    assert abs(found.values[0, 1]) > 0.1


def test_heads_together_are_the_attention_output() -> None:
    pair = pair_of()
    every = tuple(range(pair.heads))
    heads = patched_values(pair, [(Patch(PatchSite.HEAD, 1, None, every),)])
    whole = patched_values(pair, [(Patch(PatchSite.ATTENTION_OUT, 1),)])
    np.testing.assert_allclose(heads, whole, atol=1e-5)


@pytest.mark.parametrize("site", list(PatchSite))
@pytest.mark.parametrize("build", [tiny.llama, tiny.bert, tiny.t5])
def test_the_estimate_is_the_derivative_of_patching(build: Any, site: PatchSite) -> None:
    """Central difference in float64: the metric with the activation moved a little towards the clean one and away."""
    pair = pair_of(lambda: _double(build()))
    estimate = attribution_patching(pair, site, by_position=True)
    clean, corrupted = pair.activations(site)[1], pair.activations(site, "corrupted")[1]
    step = 1e-2  # RMS norms compute in float32 whatever the model is in, so a smaller one drowns in rounding

    def moved(sign: int) -> float:
        def change(values: torch.Tensor) -> torch.Tensor:
            index = (slice(None), 1, 2) if site is PatchSite.HEAD else (slice(None), 1)
            values = values.clone()
            values[index] = corrupted[index] + sign * step * (clean[index] - corrupted[index])
            return values

        with torch.no_grad():
            return float(pair.measure(1, [Edit(site.traced, 1, change)]))

    slope = (moved(1) - moved(-1)) / (2 * step) / (pair.clean_value - pair.corrupted_value)
    cell = estimate.values[1, 2, 1] if site is PatchSite.HEAD else estimate.values[1, 1]
    assert cell == pytest.approx(slope, rel=1e-2, abs=1e-4)


def _double(model: Any) -> Any:
    model.model.double()
    return model


def test_a_direct_path_is_the_clean_head_in_an_otherwise_corrupted_sum() -> None:
    """To the output with all else frozen: the final state moves by the head's difference through its projection."""
    pair = pair_of()
    network = pair.model.model
    layer, head = 1, 2
    clean = pair.activations(PatchSite.HEAD)[layer][0, -1, head]
    corrupted = pair.activations(PatchSite.HEAD, "corrupted")[layer][0, -1, head]
    matrix = network.model.layers[layer].self_attn.o_proj.weight[:, head * 4 : (head + 1) * 4]
    with torch.no_grad():
        end = pair.corrupted_run.states[-1][0, -1] + matrix @ (clean - corrupted)
        logits = network.lm_head(network.model.norm(end))
    expected = pair.normalised(float(pair.metric(logits[None])))
    found = path_patching(pair, [component(f"{layer}.{head}")], mlps="frozen")
    assert found.values[0] == pytest.approx(expected, abs=1e-5)


def test_a_path_through_a_later_head_is_less_than_all_paths_and_needs_order() -> None:
    pair = pair_of()
    through = head_paths(pair, "2.1")
    assert through.values.shape == (3, 4)
    assert np.isnan(through.values[2]).all()
    assert np.isfinite(through.values[:2]).all()
    with pytest.raises(DataError, match=r"sender 2\.0 must come before receiver 1\.1"):
        path_patching(pair, [component("2.0")], "1.1")
    with pytest.raises(DataError, match="is no component"):
        component("five")
    with pytest.raises(TraceError, match="head 9 is out of range"):
        path_patching(pair, [component("0.9")])


def test_mean_ablation_puts_the_mean_over_all_tokens() -> None:
    pair = pair_of()
    found = mean_ablation(pair, "mlp_out")
    both = [pair.activations(PatchSite.MLP_OUT, text)[1][0] for text in ("clean", "corrupted")]
    mean = torch.cat(both).mean(0)
    with torch.no_grad(), intervene(pair.model, Edit(Site.MLP, 1, lambda v: mean.expand_as(v))):
        logits = pair.model.model(**pair.clean.inputs).logits[:, -1]
    assert found.values[1, 0] == pytest.approx(pair.normalised(float(pair.metric(logits))), abs=1e-4)
    with pytest.raises(DataError, match="mean ablation is of components"):
        mean_ablation(pair, "residual")


def test_mean_over_pairs_is_a_ratio_of_sums() -> None:
    first, second = pair_of(), patch_pair(tiny.llama(), CLEAN, CORRUPTED, "mat", "old")
    effects = [activation_patching(pair) for pair in (first, second)]
    weights = [pair.clean_value - pair.corrupted_value for pair in (first, second)]
    expected = sum(w * e.values for w, e in zip(weights, effects, strict=True)) / sum(weights)
    both = mean_effects([first, second], effects)
    np.testing.assert_allclose(both.values, expected)
    assert both.standard_error is not None
    assert np.isfinite(both.standard_error).all()
    alone = mean_effects([first], effects[:1])
    assert alone.standard_error is not None
    assert np.isnan(alone.standard_error).all()  # one pair says nothing of the next
    assert "standard errors undefined (one pair has no spread)" in alone.note


def test_metrics() -> None:
    model = tiny.llama()
    alone = patch_pair(model, CLEAN, CORRUPTED, "mat")
    with torch.no_grad():
        logits = model.model(**alone.clean.inputs).logits[0, -1]
    wanted = model.tokenizer.convert_tokens_to_ids("mat")
    assert alone.clean_value == pytest.approx(float(logits.softmax(-1)[wanted]), abs=1e-6)
    logged = patch_pair(model, CLEAN, CORRUPTED, "mat", metric="log_probability")
    assert logged.clean_value == pytest.approx(float(logits.log_softmax(-1)[wanted]), abs=1e-5)


def test_bad_input_says_what_to_do() -> None:
    model = tiny.llama()
    with pytest.raises(
        DataError, match="clean has 5 tokens, corrupted 6: patching needs texts of equal length"
    ):
        patch_pair(model, CLEAN, CORRUPTED + " mat", "mat", "house")
    with pytest.raises(TraceError, match=r"is .* for both texts"):
        patch_pair(model, CLEAN, CLEAN, "mat", "house")
    with pytest.raises(DataError, match="not in the vocabulary"):
        patch_pair(model, CLEAN, CORRUPTED, "zebra")
    with pytest.raises(ModelError, match="patching needs a causal"):
        patch_pair(tiny.bert("AutoModel"), CLEAN, CORRUPTED, "mat")
    with pytest.raises(DataError, match="write it once in both texts"):
        patch_pair(tiny.bert(), CLEAN, CORRUPTED, "mat")
    with pytest.raises(DataError, match="has no label 'good'; its labels are LABEL_0, LABEL_1"):
        patch_pair(tiny.bert("AutoModelForSequenceClassification"), CLEAN, CORRUPTED, "good")
    pair = pair_of()
    with pytest.raises(DataError, match="unknown site 'mlp'"):
        activation_patching(pair, "mlp")
    with pytest.raises(TraceError, match="layer 7 is out of range"):
        activation_patching(pair, layers=[7])
    with pytest.raises(DataError, match="unknown metric 'logits'"):
        patch_pair(model, CLEAN, CORRUPTED, "mat", metric="logits")


@pytest.mark.parametrize("build", [tiny.llama, tiny.t5])
@pytest.mark.parametrize("site", PatchSite)
def test_activations_kept_of_the_runs_are_those_of_runs_of_their_own(build: Any, site: PatchSite) -> None:
    """What attribution patching keeps when it runs both texts, against a pass for each that watches the site."""
    kept, own = pair_of(build, keep=site), pair_of(build)
    for text in ("clean", "corrupted"):
        for mine, theirs in zip(kept.activations(site, text), own.activations(site, text), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    estimates = [attribution_patching(pair, site).values for pair in (kept, own)]
    np.testing.assert_allclose(*estimates, rtol=1e-3, atol=1e-5)
