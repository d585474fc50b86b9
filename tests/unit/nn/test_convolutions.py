"""Lightweight and dynamic convolutions against a loop over tokens and channels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.unit.models.tiny import decoder
from workbench.models.parts import FormConfig
from workbench.models.size import flops_per_token
from workbench.nn import AttentionContext, sdpa_attention
from workbench.nn.forms.convolution import (
    ConvolutionAttention,
    DynamicConvolutionAttention,
    LightweightConvolutionAttention,
)

FORMS = [LightweightConvolutionAttention, DynamicConvolutionAttention]


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def loop(module: ConvolutionAttention, hidden: Tensor) -> Tensor:
    """Wu et al. 2019, figure 2: GLU, kernel of each token and head, sum over its neighbours, output layer."""
    gated = module.value(hidden) * torch.sigmoid(module.gate(hidden))
    size, kernel = module.head_size, module.kernel
    before = kernel - 1 if module.is_causal else kernel // 2
    mixed = torch.zeros_like(gated)
    for place in range(hidden.shape[1]):
        for head in range(module.heads):
            if isinstance(module, DynamicConvolutionAttention):
                matrix = module.scores.weight.view(module.heads, kernel, -1)[head]
                scores = (matrix @ gated[0, place]).tolist()
            else:
                assert isinstance(module, LightweightConvolutionAttention)
                scores = module.scores[head].tolist()
            channels = slice(head * size, (head + 1) * size)
            for offset, weight in enumerate(softmax(scores)):
                key = place - before + offset
                if 0 <= key < hidden.shape[1]:
                    mixed[0, place, channels] += weight * gated[0, key, channels]
    return module.output(mixed)


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kernel", "is_causal"), [(3, False), (4, False), (3, True), (9, True), (9, False)])
def test_both_ways_are_the_loop(form: type[ConvolutionAttention], kernel: int, is_causal: bool) -> None:
    torch.manual_seed(0)
    module = form(kernel=kernel, width=8, heads=2, is_causal=is_causal).double().eval()
    hidden = torch.randn(1, 6, 8, dtype=torch.float64)
    expected = loop(module, hidden)
    slow, weights = module(hidden, AttentionContext())
    fast, _ = module(hidden, AttentionContext(function=sdpa_attention))
    torch.testing.assert_close(slow, expected)
    torch.testing.assert_close(fast, expected)
    # a band: rows whose whole kernel lies in the text sum to one
    before = kernel - 1 if is_causal else kernel // 2
    whole = [p for p in range(6) if p >= before and p + kernel - 1 - before < 6]
    torch.testing.assert_close(weights[0, :, whole].sum(-1), torch.ones(2, len(whole), dtype=torch.float64))


def test_cost_is_that_of_the_kernel() -> None:
    """A width of 16, GLU and output 3 · 16², kernel 3 (values alone), against 4 · 16² and all keys, two layers."""
    plain, form = decoder(), decoder(form=FormConfig(kind="lightweight_conv", kernel=3))
    rest = flops_per_token(plain, 8) - 2 * (2 * 4 * 16 * 16 + 4 * 16 * 4.5)
    assert flops_per_token(form, 8) == rest + 2 * (2 * 3 * 16 * 16 + 2 * 16 * 3)
    dynamic = decoder(form=FormConfig(kind="dynamic_conv", kernel=3))
    assert flops_per_token(dynamic, 8) == flops_per_token(form, 8) + 2 * 2 * 16 * (4 * 3)
