"""Means and ablations in encoder-decoders, against hooks written by hand on whole passes of the model.

What a head gives is read where the output projection takes it in; a pass has its source and its target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.unit.trace import tiny
from tests.unit.trace.test_decoder_prefix import bart
from workbench.analysis.patching import PatchPair, mean_ablation, patch_pair
from workbench.models import LoadedModel
from workbench.trace import Stack, mean_head_outputs

CLEAN, CORRUPTED = "the cat sat on the mat", "the dog sat on the mat"
HEADS, WIDTH = 4, 4
MODELS = pytest.mark.parametrize("make", [bart, tiny.t5], ids=["bart", "t5"])
STACKS = pytest.mark.parametrize("stack", [Stack.ENCODER, Stack.DECODER, Stack.CROSS])


def projections(model: LoadedModel, stack: Stack) -> list[nn.Module]:
    """Output projections of a stack's attention, by the names that transformers gives them."""
    kind = type(model.model).__name__
    names = {
        ("BartForConditionalGeneration", Stack.ENCODER): "model.encoder.layers.{}.self_attn.out_proj",
        ("BartForConditionalGeneration", Stack.DECODER): "model.decoder.layers.{}.self_attn.out_proj",
        ("BartForConditionalGeneration", Stack.CROSS): "model.decoder.layers.{}.encoder_attn.out_proj",
        ("T5ForConditionalGeneration", Stack.ENCODER): "encoder.block.{}.layer.0.SelfAttention.o",
        ("T5ForConditionalGeneration", Stack.DECODER): "decoder.block.{}.layer.0.SelfAttention.o",
        ("T5ForConditionalGeneration", Stack.CROSS): "decoder.block.{}.layer.1.EncDecAttention.o",
    }
    layers = 2 if stack is Stack.ENCODER else 3
    return [model.model.get_submodule(names[kind, stack].format(n)) for n in range(layers)]


@contextmanager
def entering(modules: list[nn.Module], change: Callable[[int, Tensor], Tensor]) -> Iterator[None]:
    """``change(layer, heads (B, T, H, d))`` of what enters each projection."""

    def hook(layer: int) -> Callable[..., tuple[Tensor]]:
        def call(module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor]:
            heads = arguments[0].reshape(*arguments[0].shape[:2], HEADS, WIDTH)
            return (change(layer, heads).reshape(arguments[0].shape),)

        return call

    handles = [module.register_forward_pre_hook(hook(layer)) for layer, module in enumerate(modules)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def run(model: LoadedModel, source: str, decoder_ids: list[int]) -> Tensor:
    """Logits of a plain pass, (T, V)."""
    with torch.no_grad():
        logits: Tensor = model.model(
            input_ids=torch.tensor([model.tokenizer(source).input_ids]),
            decoder_input_ids=torch.tensor([decoder_ids]),
            use_cache=False,
        ).logits[0]
    return logits


def means_by_hand(model: LoadedModel, stack: Stack, passes: list[tuple[str, list[int]]]) -> list[Tensor]:
    kept: dict[int, list[Tensor]] = {}

    def keep(layer: int, heads: Tensor) -> Tensor:
        kept.setdefault(layer, []).append(heads[0])
        return heads

    with entering(projections(model, stack), keep):
        for source, decoder_ids in passes:
            run(model, source, decoder_ids)
    return [torch.cat(kept[layer]).mean(0) for layer in sorted(kept)]


def started(model: LoadedModel, target: str) -> list[int]:
    start = model.model.generation_config.decoder_start_token_id
    start = model.config.pad_token_id if start is None else start
    return [start, *model.tokenizer(target, add_special_tokens=False).input_ids]


@MODELS
@STACKS
def test_means_are_taken_in_whole_passes(make, stack):
    model = make()
    texts, targets = [CLEAN, "a dog ran"], ["a big dog", "the old cat sat"]
    expected = means_by_hand(
        model, stack, [(x, started(model, y)) for x, y in zip(texts, targets, strict=True)]
    )
    found = mean_head_outputs(model, texts, stack, targets=targets)
    np.testing.assert_allclose(found, torch.stack(expected).numpy(), atol=1e-5)


def pair(model: LoadedModel, stack: Stack) -> PatchPair:
    return patch_pair(model, CLEAN, CORRUPTED, "mat", "house", target_text="a big", stack=stack.value)


@MODELS
@pytest.mark.parametrize("stack", [Stack.ENCODER, Stack.DECODER])
def test_mean_ablation_takes_the_means_of_the_pairs_own_passes(make, stack):
    model = make()
    decoder_ids = started(model, "a big")
    means = means_by_hand(model, stack, [(CLEAN, decoder_ids), (CORRUPTED, decoder_ids)])
    mat, house = model.tokenizer("mat house", add_special_tokens=False).input_ids

    def difference(source: str) -> float:
        last = run(model, source, decoder_ids)[-1]
        return float(last[mat] - last[house])

    clean, corrupted = difference(CLEAN), difference(CORRUPTED)
    found = mean_ablation(pair(model, stack), "head")
    for layer in range(len(means)):
        for head in range(HEADS):

            def silence(number: int, heads: Tensor, layer: int = layer, head: int = head) -> Tensor:
                heads = heads.clone()
                if number == layer:
                    heads[:, :, head] = means[layer][head]
                return heads

            with entering(projections(model, stack), silence):
                ablated = difference(CLEAN)
            right = (ablated - corrupted) / (clean - corrupted)
            assert found.values[layer, head] == pytest.approx(right, abs=1e-3)


@MODELS
def test_other_texts_are_read_with_the_pairs_own_target(make):
    model = make()
    decoder_ids = started(model, "a big")
    texts = [CLEAN, "a dog ran"]
    patched = pair(model, Stack.DECODER)
    given = patched.passes(texts)
    assert [list(one.read.alignment.ids) for one in given] == [decoder_ids, decoder_ids]
    assert [list(one.source.alignment.ids) for one in given] == [model.tokenizer(t).input_ids for t in texts]
