"""Leaving out what nobody reads changes nothing that somebody reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch

from tests.unit.trace.tiny import albert, bert, llama, t5
from workbench.models import LoadedModel
from workbench.trace import observe_attention
from workbench.trace.reading import reading_only

IDS = torch.tensor([[5, 9, 14, 7, 11, 6], [6, 6, 12, 8, 5, 0]])
PLACES = torch.tensor([2, 4, 6, 9])  # row * 6 + column


def logits_of(model: LoadedModel, ids: torch.Tensor = IDS) -> torch.Tensor:
    inputs = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    logits: torch.Tensor = model.model(input_ids=ids, attention_mask=(ids != 0).long(), **inputs).logits
    return logits.flatten(0, 1) if logits.ndim == 3 else logits


@contextmanager
def rows_of(model: LoadedModel, name: str) -> Iterator[list[int]]:
    """How many rows the map of this name is given, each time that the model runs in the block."""
    seen: list[int] = []
    handle = model.model.get_submodule(name).register_forward_pre_hook(
        lambda module, arguments: seen.append(arguments[0].flatten(0, -2).shape[0])
    )
    yield seen
    handle.remove()


def hooks_on(model: LoadedModel) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.model.modules())


@pytest.mark.parametrize(
    ("make", "idle", "always"),
    [
        (
            llama,
            ("model.layers.2.mlp.down_proj", "model.layers.2.self_attn.q_proj"),
            "model.layers.2.self_attn.k_proj",
        ),
        (bert, ("bert.encoder.layer.2.output.dense",), "bert.encoder.layer.2.attention.self.value"),
        (t5, ("decoder.block.2.layer.2.DenseReluDense.wo",), "decoder.block.2.layer.1.EncDecAttention.k"),
    ],
)
@torch.no_grad()
def test_the_last_layer_runs_only_where_it_is_read(
    make: Callable[[], LoadedModel], idle: tuple[str, ...], always: str
) -> None:
    model = make()
    whole = logits_of(model)
    with reading_only(model.model, PLACES), ExitStack() as stack:
        left_out = [stack.enter_context(rows_of(model, name)) for name in idle]
        needed = stack.enter_context(rows_of(model, always))
        part = logits_of(model)
    torch.testing.assert_close(part[PLACES], whole[PLACES], rtol=0, atol=1e-5)
    assert all(rows == [len(PLACES)] for rows in left_out)
    assert needed == [IDS.numel()]
    assert hooks_on(model) == 0
    assert (part - whole).abs().max() > 1e-3  # elsewhere the output means nothing


def test_gradients_are_the_same() -> None:
    model = bert("AutoModelForSequenceClassification")
    states = model.model.get_input_embeddings()(IDS).detach().requires_grad_()

    def gradient() -> torch.Tensor:
        (found,) = torch.autograd.grad(model.model(inputs_embeds=states).logits[:, 1].sum(), states)
        return found

    whole = gradient()
    with (
        reading_only(model.model, torch.tensor([0, 6]), first=True),
        rows_of(model, "bert.encoder.layer.2.intermediate.dense") as seen,
    ):
        torch.testing.assert_close(gradient(), whole, rtol=0, atol=1e-6)
    assert seen == [2]


@torch.no_grad()
def test_a_model_whose_layers_share_weights_runs_in_full() -> None:
    model = albert()
    whole = logits_of(model)
    with reading_only(model.model, PLACES):
        torch.testing.assert_close(logits_of(model), whole, rtol=0, atol=0)


@torch.no_grad()
def test_a_head_that_reads_another_position_is_found_out() -> None:
    """Each row of logits comes from the last token: saying it is the first must not spoil it."""
    from transformers import LlamaForSequenceClassification

    base = llama()
    head = LlamaForSequenceClassification(base.config).eval()
    whole = head(input_ids=IDS[:1]).logits
    with reading_only(head, torch.tensor([0]), first=True):
        torch.testing.assert_close(head(input_ids=IDS[:1]).logits, whole, rtol=0, atol=0)


@torch.no_grad()
def test_nothing_is_left_out_while_attention_is_watched() -> None:
    class Last:
        def __init__(self) -> None:
            self.heads: list[torch.Tensor] = []

        def wants(self, stack: Any, layer: int) -> bool:
            return layer == 2

        def observe(self, call: Any) -> None:
            self.heads.append(call.weights.clone())

    model, plain, inside = llama(), Last(), Last()
    with observe_attention(model, plain):
        logits_of(model)
    with observe_attention(model, inside), reading_only(model.model, PLACES):
        logits_of(model)
    torch.testing.assert_close(inside.heads, plain.heads, rtol=0, atol=0)


def test_threads_read_what_each_asked_for() -> None:
    model = llama()
    with torch.no_grad():
        whole = logits_of(model)
    wrong: list[float] = []

    def read(place: int) -> None:
        places = torch.tensor([place])
        for _ in range(20):
            with torch.no_grad(), reading_only(model.model, places):
                wrong.append(float((logits_of(model)[places] - whole[places]).abs().max()))

    threads = [threading.Thread(target=read, args=(place,)) for place in (1, 4, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 60
    assert max(wrong) < 1e-5
    assert hooks_on(model) == 0
