"""Path patching and mean ablation beside hooks written by hand on plain transformers modules.

Wang et al. 2022, "Interpretability in the Wild": in the run of one text the heads' outputs are held at that text's
values, the sender's at the other text's, and what the receiver gives is put into a run of its own; feed-forward parts
are recomputed. Heads are read where the output projection takes them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.unit.analysis.test_encoder_decoder_means import projections, started
from tests.unit.trace import tiny
from workbench.analysis.patching import (
    PathMlps,
    component,
    head_paths,
    mean_ablation,
    patch,
    patch_pair,
    path_patching,
)
from workbench.errors import DataError, TaskError
from workbench.models import LoadedModel
from workbench.trace import Site, Stack
from workbench.trace.decoder import text_passes
from workbench.trace.interventions import mean_outputs

CLEAN, CORRUPTED = "the cat sat on the", "the dog sat on the"
WIDTH = 4  # of a head
MODELS = pytest.mark.parametrize("make", [tiny.llama, tiny.gpt2], ids=["llama", "gpt2"])


def modules(model: LoadedModel) -> tuple[list[nn.Module], list[nn.Module]]:
    """Output projections of attention, and feed-forward parts, by transformers' names."""
    network = model.model
    if network.config.model_type == "gpt2":
        return [b.attn.c_proj for b in network.transformer.h], [b.mlp for b in network.transformer.h]
    return [b.self_attn.o_proj for b in network.model.layers], [b.mlp for b in network.model.layers]


def metric(model: LoadedModel, text: str) -> float:
    mat, house = model.tokenizer("mat house").input_ids
    with torch.no_grad():
        last = model.model(torch.tensor([model.tokenizer(text).input_ids])).logits[0, -1]
    return float(last[mat] - last[house])


@contextmanager
def changed(
    heads: list[nn.Module],
    mlps: list[nn.Module],
    head: Callable[[int, Tensor], Tensor],
    mlp: Callable[[int, Tensor], Tensor],
) -> Iterator[None]:
    """``head(layer, values (1, T, H * d))`` of what enters each projection, ``mlp`` of what leaves each mlp."""
    with ExitStack() as stack:
        for n, module in enumerate(heads):
            hook: Any = lambda _, given, n=n: (head(n, given[0]),)  # noqa: E731
            stack.callback(module.register_forward_pre_hook(hook).remove)
        for n, module in enumerate(mlps):
            after: Any = lambda _, given, out, n=n: mlp(n, out)  # noqa: E731
            stack.callback(module.register_forward_hook(after).remove)
        yield


def recorded(model: LoadedModel, text: str) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    heads: dict[int, Tensor] = {}
    mlps: dict[int, Tensor] = {}

    def keep(found: dict[int, Tensor]) -> Callable[[int, Tensor], Tensor]:
        def look(layer: int, values: Tensor) -> Tensor:
            found[layer] = values.detach().clone()
            return values

        return look

    with changed(*modules(model), keep(heads), keep(mlps)):
        metric(model, text)
    return heads, mlps


def path_by_hand(
    model: LoadedModel, sender: tuple[int, int | None], receiver: tuple[int, int] | None, frozen: bool
) -> float:
    """The metric of the corrupted text; a sender without a head is its layer's feed-forward part."""
    clean_heads, clean_mlps = recorded(model, CLEAN)
    heads, mlps = recorded(model, CORRUPTED)
    caught: list[Tensor] = []

    def hold_heads(layer: int, values: Tensor) -> Tensor:
        if receiver is not None and layer == receiver[0]:
            caught.append(values.clone())
        held = heads[layer].clone()
        if layer == sender[0] and sender[1] is not None:
            part = slice(sender[1] * WIDTH, (sender[1] + 1) * WIDTH)
            held[..., part] = clean_heads[layer][..., part]
        return held

    def hold_mlps(layer: int, values: Tensor) -> Tensor:
        if layer == sender[0] and sender[1] is None:
            return clean_mlps[layer]
        return mlps[layer] if frozen else values

    with changed(*modules(model), hold_heads, hold_mlps):
        direct = metric(model, CORRUPTED)
    if receiver is None:
        return direct

    def give(layer: int, values: Tensor) -> Tensor:
        values = values.clone()
        if layer == receiver[0]:
            part = slice(receiver[1] * WIDTH, (receiver[1] + 1) * WIDTH)
            values[..., part] = caught[0][..., part]
        return values

    with changed(*modules(model), give, lambda layer, values: values):
        return metric(model, CORRUPTED)


@MODELS
@pytest.mark.parametrize("mlps", list(PathMlps))
@pytest.mark.parametrize("receiver", [None, (2, 1)])
def test_paths_are_those_of_hooks_by_hand(
    make: Any, mlps: PathMlps, receiver: tuple[int, int] | None
) -> None:
    model = make()
    pair = patch_pair(model, CLEAN, CORRUPTED, "mat", "house")
    senders = {"0.2": (0, 2), "1.3": (1, 3), "mlp 0": (0, None), "mlp 1": (1, None)}
    end = "output" if receiver is None else "2.1"
    found = path_patching(pair, [component(name) for name in senders], end, mlps=mlps)
    clean, corrupted = metric(model, CLEAN), metric(model, CORRUPTED)
    for value, sender in zip(found.values, senders.values(), strict=True):
        by_hand = path_by_hand(model, sender, receiver, mlps is PathMlps.FROZEN)
        assert value == pytest.approx((by_hand - corrupted) / (clean - corrupted), abs=1e-4)


def test_both_ways_differ_and_the_cited_one_is_the_default() -> None:
    pair = patch_pair(tiny.gpt2(), CLEAN, CORRUPTED, "mat", "house")
    cited, frozen = (head_paths(pair, mlps=mlps) for mlps in PathMlps)
    np.testing.assert_array_equal(head_paths(pair).values, cited.values)
    assert np.abs(cited.values[:2] - frozen.values[:2]).max() > 0.01
    np.testing.assert_array_equal(
        patch(pair.model, CLEAN, CORRUPTED, "mat", "house", method="path", mlps="frozen").values,
        frozen.values,
    )
    with pytest.raises(DataError, match="unknown mlps 'held'; allowed: recomputed, frozen"):
        head_paths(pair, mlps="held")


def test_a_decoders_path_does_not_run_through_its_cross_attention() -> None:
    """T5's decoder: self- and cross-attention heads are held at the corrupted run's values by hand."""
    model = tiny.t5()
    pair = patch_pair(
        model, "the cat sat", "the dog sat", "mat", "house", target_text="a big", stack="decoder"
    )
    ids = torch.tensor([started(model, "a big")])
    own, cross = (projections(model, stack) for stack in (Stack.DECODER, Stack.CROSS))

    def run(text: str, hold: Callable[[int, Tensor], Tensor]) -> float:
        mat, house = model.tokenizer("mat house", add_special_tokens=False).input_ids
        with changed([*own, *cross], [], hold, hold), torch.no_grad():
            given = torch.tensor([model.tokenizer(text).input_ids])
            last = model.model(input_ids=given, decoder_input_ids=ids, use_cache=False).logits[0, -1]
        return float(last[mat] - last[house])

    kept: dict[str, dict[int, Tensor]] = {"the cat sat": {}, "the dog sat": {}}

    def keep(text: str) -> Callable[[int, Tensor], Tensor]:
        def look(number: int, values: Tensor) -> Tensor:
            kept[text][number] = values.clone()
            return values

        return look

    clean, corrupted = (run(text, keep(text)) for text in kept)

    def hold(number: int, values: Tensor) -> Tensor:
        held = kept["the dog sat"][number].clone()
        if number == 1:  # the decoder's second layer
            held[..., 8:12] = kept["the cat sat"][number][..., 8:12]
        return held

    expected = (run("the dog sat", hold) - corrupted) / (clean - corrupted)
    assert path_patching(pair, [component("1.2")]).values[0] == pytest.approx(expected, abs=1e-4)


@MODELS
def test_means_by_position_are_those_of_the_template(make: Any) -> None:
    """Each position has the mean of that position over the samples (Wang et al. 2022, section 2.2)."""
    model = make()
    samples = [CLEAN, CORRUPTED, "the mat ran in the", "a house ran in a"]
    pair = patch_pair(model, CLEAN, CORRUPTED, "mat", "house")
    found = mean_ablation(pair, mean="positions", texts=samples)
    means = torch.stack([recorded(model, text)[0][1] for text in samples]).mean(0)  # (1, T, H * d) of layer 1

    def ablate(layer: int, values: Tensor) -> Tensor:
        values = values.clone()
        if layer == 1:
            values[..., 8:12] = means[..., 8:12]
        return values

    with changed(*modules(model), ablate, lambda layer, values: values):
        ablated = metric(model, CLEAN)
    clean, corrupted = metric(model, CLEAN), metric(model, CORRUPTED)
    assert found.values[1, 2] == pytest.approx((ablated - corrupted) / (clean - corrupted), abs=1e-4)
    assert np.abs(found.values - mean_ablation(pair, texts=samples).values).max() > 0.01


def test_means_by_position_need_texts_of_one_length() -> None:
    pair = patch_pair(tiny.llama(), CLEAN, CORRUPTED, "mat", "house")
    with pytest.raises(DataError, match="text 2 has 3 tokens, the pair 5"):
        mean_ablation(pair, mean="positions", texts=[CLEAN, "a dog ran"])
    mean_ablation(pair, mean="tokens", texts=[CLEAN, "a dog ran"])
    model = tiny.llama()
    for texts in ([CLEAN, "a dog ran"], ["a dog ran", CLEAN]):
        for batch in (1, 2):  # padded in one pass, and in passes of their own
            passes = text_passes(model, texts)
            with pytest.raises(DataError, match="means by position need texts that are all of one length"):
                mean_outputs(model, passes, Site.HEAD_OUTPUT, batch_size=batch, by_position=True)


def test_an_option_of_another_method_is_refused() -> None:
    for option, method in (({"mlps": "frozen"}, "activation"), ({"mean": "tokens"}, "path")):
        with pytest.raises(
            TaskError, match=f"{next(iter(option))} is of method .*, the method is {method}; leave"
        ):
            patch(tiny.llama(), CLEAN, CORRUPTED, "mat", "house", method=method, **option)
