"""Captured values are what plain forward hooks on plain transformers models see, text by text and without padding."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor

import workbench
from tests.unit.analysis.test_lens import builtin
from tests.unit.trace import tiny
from workbench.errors import DataError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.trace import captured, load_capture
from workbench.trace.architectures import FAMILIES, build_tiny
from workbench.trace.decoder import pass_inputs, text_passes

TEXTS = ["the cat sat on the mat", "a dog", "the old house and the red dog ran"]
TARGETS = ["a dog ran", "the cat sat on the mat", "the"]
# model -> by site: name of the module in layer {n}, and whether its input is the site; from transformers' sources
MODULES = {
    "llama": (
        tiny.llama,
        None,
        {
            "residual": "model.layers.{n}",
            "attention_out": "model.layers.{n}.self_attn.o_proj",
            "mlp": "model.layers.{n}.mlp.down_proj",
            "head_output": "model.layers.{n}.self_attn.o_proj",
        },
    ),
    "gpt2": (
        tiny.gpt2,
        None,
        {
            "residual": "transformer.h.{n}",
            "attention_out": "transformer.h.{n}.attn.c_proj",
            "mlp": "transformer.h.{n}.mlp.c_proj",
            "head_output": "transformer.h.{n}.attn.c_proj",
        },
    ),
    "bert": (
        tiny.bert,
        None,
        {
            "residual": "bert.encoder.layer.{n}",
            "attention_out": "bert.encoder.layer.{n}.attention.output.dense",
            "mlp": "bert.encoder.layer.{n}.output.dense",
            "head_output": "bert.encoder.layer.{n}.attention.output.dense",
        },
    ),
    "t5 decoder": (
        tiny.t5,
        "decoder",
        {
            "residual": "decoder.block.{n}",
            "attention_out": "decoder.block.{n}.layer.0.SelfAttention.o",
            "mlp": "decoder.block.{n}.layer.2.DenseReluDense.wo",
            "head_output": "decoder.block.{n}.layer.0.SelfAttention.o",
        },
    ),
    "t5 encoder": (
        tiny.t5,
        "encoder",
        {"residual": "encoder.block.{n}", "mlp": "encoder.block.{n}.layer.1.DenseReluDense.wo"},
    ),
    "t5 cross": (
        tiny.t5,
        "cross",
        {
            "attention_out": "decoder.block.{n}.layer.1.EncDecAttention.o",
            "head_output": "decoder.block.{n}.layer.1.EncDecAttention.o",
        },
    ),
}
CASES = [(name, site) for name, (_, _, sites) in MODULES.items() for site in sites]


def by_hooks(model: LoadedModel, name: str, of_input: bool, stack: str | None) -> list[np.ndarray]:
    """What one module sees or gives, text by text, in plain passes."""
    kept: list[Tensor] = []

    def keep(module: Any, given: Any, output: Any) -> None:
        tensor = given[0] if of_input else output if isinstance(output, Tensor) else output[0]
        kept.append(tensor.detach().clone()[0])

    handle = model.model.get_submodule(name).register_forward_hook(keep)
    targets = None if stack is None else TARGETS
    for one in text_passes(model, TEXTS, targets):
        with torch.no_grad():
            model.model(**pass_inputs(model, [one]))
    handle.remove()
    return [tensor.numpy() for tensor in kept]


@pytest.mark.parametrize(("name", "site"), CASES)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_values_are_those_of_plain_hooks(name: str, site: str, batch_size: int) -> None:
    build, stack, sites = MODULES[name]
    model = build()
    targets = None if stack is None else TARGETS
    found = workbench.capture(model, TEXTS, site, stack=stack, targets=targets, batch_size=batch_size)
    for layer in found.layers:
        expected = by_hooks(model, sites[site].format(n=layer), site == "head_output", stack)
        for text, values in enumerate(expected):
            mine = found[text][list(found.layers).index(layer)]
            np.testing.assert_allclose(mine.reshape(len(mine), -1), values, rtol=1e-5, atol=1e-5)
    heads = {"head_output": 2}.get(site, 1)
    assert found.values.ndim == 2 + heads


@pytest.mark.parametrize("build", [tiny.albert, tiny.deberta, lambda: builtin(Kind.CAUSAL, placement="pre")])
def test_the_residual_is_the_hidden_state_where_no_norm_follows(build: Callable[[], LoadedModel]) -> None:
    """Of shared blocks, attention outside the interface, and our own models: against ``output_hidden_states``."""
    model = build()
    found = workbench.capture(model, TEXTS, "residual", 0)
    for text, one in enumerate(text_passes(model, TEXTS)):
        with torch.no_grad():
            hidden = model.model(**pass_inputs(model, [one]), output_hidden_states=True).hidden_states
        np.testing.assert_allclose(found[text][0], hidden[1][0].numpy(), rtol=1e-5, atol=1e-5)


def test_positions_are_all_the_last_the_same_or_each_text_s_own() -> None:
    model = tiny.llama()
    whole = workbench.capture(model, TEXTS, "mlp", 1)
    last = workbench.capture(model, TEXTS, "mlp", 1, "last")
    same = workbench.capture(model, TEXTS, "mlp", 1, [0, -1])
    own = workbench.capture(model, TEXTS, "mlp", 1, [[2, 0], [], [-2]])
    assert last.places["token"].tolist() == ["mat", "dog", "ran"]
    np.testing.assert_allclose(last.values[0], [whole[text][0, -1] for text in range(3)], atol=1e-6)
    assert same.places["position"].tolist() == [0, 5, 0, 1, 0, 7]
    assert own.places[["text", "position"]].to_numpy().tolist() == [[0, 2], [0, 0], [2, 6]]
    np.testing.assert_allclose(own.layer(1)[1], whole[0][0, 0], atol=1e-6)
    assert own[1].shape == (1, 0, whole.values.shape[2])


def test_the_pass_ends_after_the_last_layer_and_leaves_no_hook() -> None:
    model = tiny.llama()
    ran: list[int] = []
    for number, block in enumerate(model.model.model.layers):
        block.register_forward_hook(lambda *_, number=number: ran.append(number))
    ids = torch.tensor([model.tokenizer(TEXTS[0]).input_ids])
    with torch.no_grad():
        before = model.model(ids).logits
    workbench.capture(model, TEXTS[:1], "mlp", 0, "last")  # examines the model, once
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.model.modules()]
    ran.clear()
    workbench.capture(model, TEXTS[:1], "attention_out", [0], "last")
    assert ran == [0]
    assert hooks == [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.model.modules()]
    with torch.no_grad():
        assert torch.equal(model.model(ids).logits, before)


def test_large_values_go_to_disk_and_are_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.llama()
    small = workbench.capture(model, TEXTS, "head_output", batch_size=2)
    monkeypatch.setattr(captured, "_LARGEST", small.values.nbytes - 1)
    large = workbench.capture(model, TEXTS, "head_output", batch_size=2)
    assert small.path is None
    assert large.path is not None
    assert isinstance(large.values, np.memmap)
    np.testing.assert_array_equal(large.values, small.values)
    np.testing.assert_array_equal(load_file(large.path / "values.safetensors")["values"], small.values)
    folder = large.path
    del large
    gc.collect()
    assert not folder.exists()


def test_a_folder_of_its_own_is_read_back_and_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    model = tiny.bert()
    written = workbench.capture(model, TEXTS, "mlp", [1, 0], out=tmp_path / "mlp")
    again = load_capture(tmp_path / "mlp")
    np.testing.assert_array_equal(again.values, workbench.capture(model, TEXTS, "mlp", [1, 0]).values)
    assert repr(again) == repr(written)
    assert again.places.equals(workbench.capture(model, TEXTS, "mlp", 0).places)
    with pytest.raises(TraceError, match="exists already; name a new folder"):
        workbench.capture(model, TEXTS, out=tmp_path / "mlp")

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    model.model.bert.encoder.layer[1].register_forward_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        workbench.capture(model, TEXTS, "residual", out=tmp_path / "half")
    assert [path.name for path in tmp_path.iterdir()] == ["mlp"]
    with pytest.raises(TraceError, match="no capture in"):
        load_capture(tmp_path)


def test_the_table_has_a_row_a_layer_and_place_and_a_column_a_number() -> None:
    found = workbench.capture(tiny.llama(), TEXTS, "head_output", [2, 0], "last")
    frame = found.to_frame()
    assert frame["layer"].tolist() == [2, 2, 2, 0, 0, 0]
    assert frame["token"].tolist() == ["mat", "dog", "ran"] * 2
    assert frame["1.2"].tolist() == found.values[:, :, 1, 2].ravel().tolist()
    assert len(found) == 3
    assert repr(found).startswith("<Capture of tiny llama: head_output of 2 layers, 3 texts, 3 places of ")


def test_inside_an_intervention_it_is_of_the_changed_pass() -> None:
    from workbench.trace import ablate_heads

    model = tiny.llama()
    plain = workbench.capture(model, TEXTS, "head_output", 1)
    with ablate_heads(model, [(1, 0)]):
        changed = workbench.capture(model, TEXTS, "head_output", 1)
    assert not changed.values[0, :, 0].any()
    np.testing.assert_allclose(changed.values[0, :, 1], plain.values[0, :, 1], atol=1e-5)


WRONG = {
    "unknown site 'mpl'; did you mean 'mlp'?": {"site": "mpl"},
    "attention weights are recorded by trace": {"site": "attention"},
    "layer 9 is out of range: the decoder has layers 0 to 2": {"layers": 9},
    "no layer to capture": {"layers": []},
    "position 6 is out of range: text 0 has 6 tokens": {"positions": [6]},
    "unknown positions 'first'; allowed: 'all', 'last'": {"positions": "first"},
    "no position to capture": {"positions": []},
    "positions of 2 texts for 3 texts": {"positions": [[0], [1]]},
    "the model has no 'encoder' attention": {"stack": "encoder"},
}


@pytest.mark.parametrize("message", WRONG)
def test_mistakes_are_named_in_one_line(message: str) -> None:
    with pytest.raises(TraceError) as caught:
        workbench.capture(tiny.llama(), TEXTS, **WRONG[message])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_text_is_refused() -> None:
    with pytest.raises(DataError, match="no texts"):
        workbench.capture(tiny.llama(), [])


@pytest.mark.parametrize("count", [2, 10])
def test_layers_with_the_tokens_first_are_refused(count: int) -> None:
    """XLNet's are (T, B, D); ten texts of ten tokens must not pass for ten texts either."""
    family = next(family for family in FAMILIES if family.model_type == "xlnet")
    model = tiny.loaded(build_tiny(family), Kind.CAUSAL, special=False)
    with pytest.raises(TraceError, match="do not hand on one row a text"):
        workbench.capture(model, ["the cat sat on the mat and a dog ran"] * count, batch_size=count)
