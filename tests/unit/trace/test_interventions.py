"""Interventions change what they say, where they say, and only inside their block."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.unit.trace import tiny
from workbench.errors import TraceError
from workbench.trace import (
    Edit,
    Site,
    ablate_heads,
    intervene,
    mean_head_outputs,
    replace,
    scale,
    trace,
)

TEXT = "the cat sat on the mat ."
MODELS = {"bert": tiny.bert, "albert": tiny.albert, "llama": tiny.llama}


def logits(model, text=TEXT):
    return trace(model, [text], {"logits"})[0].logits


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("site", list(Site))
def test_identity_changes_nothing_and_scaling_is_undone(name, site):
    model = MODELS[name]()
    before = logits(model)
    with intervene(model, Edit(site, 1, scale(1.0))):
        np.testing.assert_allclose(logits(model), before, atol=1e-5)
    with intervene(model, Edit(site, 1, scale(0.5))):
        assert np.abs(logits(model) - before).max() > 1e-3
    np.testing.assert_array_equal(logits(model), before)


def test_ablated_head_equals_zeroed_columns_of_the_output_projection():
    model = tiny.llama()
    with ablate_heads(model, [(1, 2)]):
        ablated = logits(model)
    with torch.no_grad():
        model.model.model.layers[1].self_attn.o_proj.weight[:, 8:12] = 0  # head 2 of width 4
    np.testing.assert_allclose(ablated, logits(model), atol=1e-5)


def test_zeroed_mlp_equals_zeroed_weights():
    model = tiny.bert()
    with intervene(model, Edit(Site.MLP, 2, scale(0.0))):
        ablated = logits(model)
    with torch.no_grad():
        model.model.bert.encoder.layer[2].output.dense.weight.zero_()
        model.model.bert.encoder.layer[2].output.dense.bias.zero_()
    np.testing.assert_allclose(ablated, logits(model), atol=1e-5)


def test_one_run_of_a_shared_layer_is_changed_alone():
    """ALBERT runs one module three times: with the last run replaced, the first two stay as they were."""
    model = tiny.albert()
    whole = trace(model, [TEXT], {"hidden"})[0].hidden
    with intervene(model, Edit(Site.RESIDUAL, 2, replace(np.zeros(1)))):
        changed = trace(model, [TEXT], {"hidden"})[0].hidden
    np.testing.assert_allclose(changed[:3], whole[:3], atol=1e-6)
    assert (changed[3] == 0).all()


def test_replaced_attention_is_what_the_trace_sees():
    """Head 3 of layer 0 attends to token 2 alone, from positions 1 and 4; all else stays."""
    model = tiny.bert()
    whole = trace(model, [TEXT])[0].attention
    row = np.eye(whole.shape[-1], dtype=np.float32)[2]
    edit = Edit(Site.ATTENTION, 0, replace(row), heads=(3,), positions=(1, 4))
    with intervene(model, edit):
        changed = trace(model, [TEXT])[0].attention
    expected = whole[0].copy()
    expected[3, [1, 4]] = row
    np.testing.assert_allclose(changed[0], expected, atol=1e-6)


def test_residual_of_one_position():
    model = tiny.llama()
    whole = trace(model, [TEXT], {"hidden"})[0].hidden
    with intervene(model, Edit(Site.RESIDUAL, 0, scale(2.0), positions=(-1,))):
        changed = trace(model, [TEXT], {"hidden"})[0].hidden
    np.testing.assert_allclose(changed[1, -1], 2 * whole[1, -1], rtol=1e-5)
    np.testing.assert_allclose(changed[:, :-1], whole[:, :-1], atol=1e-6)  # earlier tokens cannot see it


def test_mean_head_outputs_are_means_over_tokens():
    """Attention times values, averaged over all tokens of both texts, computed from the trace."""
    model = tiny.llama()
    texts = [TEXT, "a dog ran"]
    records = trace(model, texts, {"attention", "queries_keys"})
    outputs = [r.attention @ r.values.repeat(2, axis=1) for r in records]  # (L, H, T, d)
    expected = np.concatenate(outputs, axis=2).mean(2)
    means = mean_head_outputs(model, texts)
    np.testing.assert_allclose(means, expected, atol=1e-5)
    with ablate_heads(model, [(0, 0)], means):
        assert np.abs(logits(model) - logits(tiny.llama())).max() > 0


def test_cross_attention_can_be_ablated():
    """With every cross-attention head silent the source no longer matters."""
    model = tiny.t5()
    every = [(layer, head) for layer in range(3) for head in range(4)]
    with ablate_heads(model, every, stack="cross"):
        one = trace(model, ["the cat sat"], {"logits"}, targets=["a dog"])[0].logits
        two = trace(model, ["old and big house"], {"logits"}, targets=["a dog"])[0].logits
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_interventions_nest():
    model = tiny.bert()
    with ablate_heads(model, [(0, 0), (2, 1)]):
        both = logits(model)
    with ablate_heads(model, [(0, 0)]), ablate_heads(model, [(2, 1)]):
        np.testing.assert_allclose(logits(model), both, atol=1e-6)


def test_bad_edits_are_named():
    with (
        pytest.raises(TraceError, match="head 4 is out of range: the encoder has heads 0 to 3"),
        ablate_heads(tiny.bert(), [(0, 4)]),
    ):
        pass
    with (
        pytest.raises(TraceError, match="'cross' attention; it has encoder"),
        ablate_heads(tiny.bert(), [(0, 0)], stack="cross"),
    ):
        pass
    with (
        pytest.raises(TraceError, match="allowed are mlp and residual"),
        ablate_heads(tiny.deberta(), [(0, 0)]),
    ):
        pass
    model = tiny.bert()
    with (
        pytest.raises(TraceError, match="position 9 is out of range: the text has 9 tokens"),
        intervene(model, Edit(Site.RESIDUAL, 0, scale(0), positions=(9,))),
    ):
        logits(model)
