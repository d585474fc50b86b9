"""What a site is named for: the sum of what attention and feed-forward parts add is what a layer changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from probes.features import extract
from tests.unit.analysis.test_lens import builtin
from tests.unit.trace import tiny
from workbench.analysis.patching import PatchSite, patch_pair
from workbench.models import Kind, LoadedModel
from workbench.trace import Edit, Site, intervene, trace
from workbench.trace.parts import parts_of
from workbench.trace.structure import structure_of

TEXT = "the cat sat on the"


def olmo2() -> LoadedModel:
    """Norms behind each part alone."""
    config = transformers.Olmo2Config(**tiny.DECODER, num_hidden_layers=3)
    return tiny.loaded(tiny.build("AutoModelForCausalLM", config), Kind.CAUSAL, special=False)


def seen(model: LoadedModel, site: Site) -> list[Tensor]:
    """What the site is in each layer of one pass, (1, T, D)."""
    kept: list[Tensor] = []

    def keep(values: Tensor) -> Tensor:
        kept.append(values.clone())
        return values

    layers = structure_of(model.model).layers[structure_of(model.model).main]
    with torch.no_grad(), intervene(model, *[Edit(site, n, keep) for n in range(layers)]):
        model.model(torch.tensor([model.tokenizer(TEXT).input_ids]))
    return kept


def states(model: LoadedModel) -> list[Tensor]:
    """What enters the first layer and what leaves each one, read by hooks on transformers' or our blocks."""
    kept: list[Tensor] = []
    blocks = [
        model.model.get_submodule(n) for n in parts_of(model.model).blocks[structure_of(model.model).main]
    ]
    handles = [blocks[0].register_forward_pre_hook(lambda _, given: kept.append(given[0].clone()))]
    for block in blocks:
        handles.append(
            block.register_forward_hook(
                lambda _, given, out: kept.append((out if isinstance(out, Tensor) else out[0]).clone())
            )
        )
    with torch.no_grad():
        model.model(torch.tensor([model.tokenizer(TEXT).input_ids]))
    for handle in handles:
        handle.remove()
    return kept


SUMS = {
    "llama": tiny.llama,
    "gpt2": tiny.gpt2,
    "gemma2": tiny.gemma2,
    "olmo2": olmo2,
    "built-in sandwich": lambda: builtin(Kind.CAUSAL, placement="sandwich"),
    "built-in pre": lambda: builtin(Kind.CAUSAL, placement="pre"),
}


@pytest.mark.parametrize("name", SUMS)
def test_the_sites_of_a_layer_sum_to_what_it_changes(name: str) -> None:
    """x' = x + attention + feed-forward, to rounding, wherever the norms stand."""
    model: Any = SUMS[name]()
    stream, attention, mlp = states(model), seen(model, Site.ATTENTION_OUT), seen(model, Site.MLP)
    for layer in range(len(stream) - 1):
        torch.testing.assert_close(
            attention[layer] + mlp[layer], stream[layer + 1] - stream[layer], atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("name", ["llama", "gemma2", "olmo2"])
def test_everyone_reads_the_same_site(name: str) -> None:
    """Interventions, traces, patching and probes."""
    model: Any = SUMS[name]()
    sites = {"attention_out": seen(model, Site.ATTENTION_OUT), "mlp_out": seen(model, Site.MLP)}
    torch.testing.assert_close(
        torch.tensor(trace(model, [TEXT], {"mlp"})[0].get("mlp")), torch.cat(sites["mlp_out"])
    )
    pair = patch_pair(model, TEXT, "the dog sat on the", "mat", "house")
    for what, expected in sites.items():
        torch.testing.assert_close(torch.cat(pair.activations(PatchSite(what))), torch.cat(expected))
        features = extract(model, [TEXT.split()], what=what)
        found = torch.tensor(features.values[:])  # (layer, place, D), a place a word
        torch.testing.assert_close(found.float(), torch.cat(expected), atol=1e-3, rtol=1e-2)


def test_a_norm_behind_a_sum_belongs_to_no_part() -> None:
    """In BERT the norm reads the sum, so what a part adds is its projection."""
    model = tiny.bert()
    parts = parts_of(model.model)
    (stack,) = parts.blocks
    assert parts.attention_outputs[stack][1] == "bert.encoder.layer.1.attention.output.dense"
    assert parts.mlp_outputs == parts.mlp_projections
    assert parts.mlp_outputs[stack][1] == "bert.encoder.layer.1.output.dense"
