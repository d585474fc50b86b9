"""Head importance beside a head mask written by hand, whose gradient autograd takes of transformers' own loss."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.unit.analysis.test_encoder_decoder_means import projections, started
from tests.unit.trace import tiny
from workbench.analysis.importance import head_importance
from workbench.errors import DataError, ModelError, TaskError
from workbench.models import LoadedModel
from workbench.trace import Stack

TEXTS = ["the cat sat on the mat", "a dog ran", "the old house and the small red cat", "dog"]
WIDTH = 4


def by_hand(modules: list[nn.Module], loss: Callable[[], Tensor]) -> np.ndarray:
    """|dL / dx| of one text: a mask of ones (layer, head) multiplies what enters each output projection."""
    mask = torch.ones(len(modules), 4, requires_grad=True)
    with ExitStack() as stack:
        for n, module in enumerate(modules):
            hook: Any = lambda _, given, n=n: (given[0] * mask[n].repeat_interleave(WIDTH),)  # noqa: E731
            stack.callback(module.register_forward_pre_hook(hook).remove)
        loss().backward()
    assert mask.grad is not None
    return mask.grad.abs().numpy()


def mean_of(found: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    values = np.stack(found)
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))


def ids(model: LoadedModel, text: str) -> Tensor:
    return torch.tensor([model.tokenizer(text).input_ids])


@pytest.mark.parametrize("build", [tiny.gpt2, tiny.llama])
def test_of_a_causal_model_it_is_the_gradient_of_a_head_mask(build: Any) -> None:
    model = build()
    layers = model.model.transformer.h if build is tiny.gpt2 else model.model.model.layers
    modules = [layer.attn.c_proj if build is tiny.gpt2 else layer.self_attn.o_proj for layer in layers]
    one_token_left_out = TEXTS[:3]
    expected, errors = mean_of(
        [
            by_hand(modules, lambda text=text: model.model(ids(model, text), labels=ids(model, text)).loss)
            for text in one_token_left_out
        ]
    )
    found = head_importance(model, TEXTS, batch_size=2)
    np.testing.assert_allclose(found.values, expected, atol=1e-6, rtol=1e-4)
    np.testing.assert_allclose(found.standard_error, errors, atol=1e-6, rtol=1e-4)
    shares = head_importance(model, TEXTS, normalised=True)
    np.testing.assert_allclose(
        shares.values, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-3
    )


def test_of_a_classifier_it_is_of_the_labels_loss() -> None:
    model = tiny.bert("AutoModelForSequenceClassification")
    modules = [layer.attention.output.dense for layer in model.model.bert.encoder.layer]
    labels = [1, 0, 1, 1]
    expected, _ = mean_of(
        [
            by_hand(modules, lambda t=t, y=y: model.model(ids(model, t), labels=torch.tensor([y])).loss)
            for t, y in zip(TEXTS, labels, strict=True)
        ]
    )
    found = head_importance(model, TEXTS, [f"LABEL_{y}" for y in labels])
    np.testing.assert_allclose(found.values, expected, atol=1e-6, rtol=1e-4)
    with pytest.raises(TaskError, match="has no label 'LABEL_9'"):
        head_importance(model, TEXTS[:1], ["LABEL_9"])
    with pytest.raises(DataError, match="needs a label for each text, of LABEL_0, LABEL_1"):
        head_importance(model, TEXTS)


@pytest.mark.parametrize("stack", [Stack.ENCODER, Stack.DECODER, Stack.CROSS])
def test_of_an_encoder_decoder_it_is_of_the_targets_loss(stack: Stack) -> None:
    model = tiny.t5()
    targets = ["a big dog", "the old cat sat"]

    def loss(text: str, target: str) -> Tensor:
        read = started(model, target)
        output = model.model(input_ids=ids(model, text), decoder_input_ids=torch.tensor([read]))
        scores = output.logits[0, :-1].log_softmax(-1)
        return -scores[torch.arange(len(read) - 1), torch.tensor(read[1:])].mean()

    expected, _ = mean_of(
        [
            by_hand(projections(model, stack), lambda x=x, y=y: loss(x, y))
            for x, y in zip(TEXTS[:2], targets, strict=True)
        ]
    )
    found = head_importance(model, TEXTS[:2], targets, stack=stack)
    np.testing.assert_allclose(found.values, expected, atol=1e-6, rtol=1e-4)


def test_it_is_refused_where_there_is_no_loss() -> None:
    with pytest.raises(ModelError, match="head importance needs a causal or seq2seq or classifier model"):
        head_importance(tiny.bert(), TEXTS)
    with pytest.raises(DataError, match="no text has a token to predict"):
        head_importance(tiny.llama(), ["dog"])
    with pytest.raises(DataError, match="leave out the answers"):
        head_importance(tiny.llama(), TEXTS, TEXTS)
    with pytest.raises(DataError, match="4 texts, 1 answers"):
        head_importance(tiny.t5(), TEXTS, ["a dog"])
