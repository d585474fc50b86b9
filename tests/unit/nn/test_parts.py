"""Masks, norms, residual placements, feed-forward variants and pooling, each against its formula."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.nn import (
    ACTIVATIONS,
    GATED_NAMES,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    NoNorm,
    PostNorm,
    PreNorm,
    RMSNorm,
    SandwichNorm,
    first_token,
    last_token,
    mean_of_tokens,
)
from workbench.nn.masks import add_bias, causal_mask, layer_types, sliding_window_mask


def rows(mask: torch.Tensor) -> list[str]:
    return ["".join("x" if allowed else "." for allowed in row) for row in mask.tolist()]


def test_causal_mask_ends_at_the_last_key() -> None:
    assert rows(causal_mask(3, 3)) == ["x..", "xx.", "xxx"]
    assert rows(causal_mask(2, 4)) == ["xxx.", "xxxx"]


def test_windows() -> None:
    assert rows(sliding_window_mask(4, 4, 2)) == ["x...", "xx..", ".xx.", "..xx"]
    assert rows(sliding_window_mask(4, 4, 1, two_sided=True)) == ["xx..", "xxx.", ".xxx", "..xx"]
    assert rows(sliding_window_mask(1, 4, 2)) == ["..xx"]


def test_interleaved_layers() -> None:
    full, local = "full_attention", "sliding_attention"
    assert layer_types(3, None, None) == [full] * 3
    assert layer_types(3, 8, None) == [local] * 3
    assert layer_types(4, 8, 2) == [local, full, local, full]


def test_bias_and_mask_become_one() -> None:
    """0 stays the bias, blocked is the least finite number, never minus infinity, even in half precision."""
    bias = torch.tensor([[-1.0, -60000.0]], dtype=torch.float16)
    allowed = torch.tensor([[True, False]])
    least = torch.finfo(torch.float16).min
    additive = torch.tensor([[0.0, least]], dtype=torch.float16)
    for mask in (allowed, additive):
        assert add_bias(mask, bias).tolist() == [[-1.0, least]]  # type: ignore[union-attr]
    assert add_bias(None, bias) is bias
    assert add_bias(allowed, None) is allowed


def test_norms_by_hand() -> None:
    """(1, 3): mean 2, standard deviation 1, so (-1, 1); root mean square √5, so (1, 3) / √5."""
    x = torch.tensor([1.0, 3.0])
    torch.testing.assert_close(LayerNorm(2, 0.0)(x), torch.tensor([-1.0, 1.0]))
    torch.testing.assert_close(RMSNorm(2, 0.0)(x), x / math.sqrt(5))
    assert NoNorm(2)(x) is x
    half = RMSNorm(2, 0.0).bfloat16()(x.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), x / math.sqrt(5), atol=4e-3, rtol=0)


def test_residual_placements() -> None:
    """With a sub-layer that doubles and a norm that negates: x = 3 gives the sums written out below."""

    class Negate(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -x

    x = torch.tensor(3.0)
    post, pre = PostNorm(norm=Negate()), PreNorm(norm=Negate())
    sandwich = SandwichNorm(norm=Negate(), outer_norm=Negate())
    results = [float(r.leave(x, 2 * r.enter(x)).detach()) for r in (post, pre, sandwich)]
    assert results == [-(3 + 6), 3 - 6, 3 + 6]


def test_residual_scales() -> None:
    x, update = torch.tensor(3.0), torch.tensor(5.0)
    rezero = PreNorm(norm=NoNorm(1), scale="rezero")
    assert float(rezero.leave(x, update).detach()) == 3.0  # a block is the identity at first
    fixup = PreNorm(norm=NoNorm(1), scale="fixup")
    assert float(fixup.leave(x, update).detach()) == 8.0
    assert rezero.scale is not None
    assert rezero.scale.requires_grad


VALUES = {  # at x = 1
    "relu": 1.0,
    "gelu": 0.5 * (1 + math.erf(1 / math.sqrt(2))),
    "gelu_tanh": 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715)),
    "silu": 1 / (1 + math.exp(-1)),
    "swish": 1 / (1 + math.exp(-1)),
    "elu": 1.0,
    "selu": 1.0507009873554805,
    "sigmoid": 1 / (1 + math.exp(-1)),
    "softplus": math.log(1 + math.e),
    "tanh": math.tanh(1),
    "linear": 1.0,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    assert float(ACTIVATIONS[name](torch.tensor(1.0))) == pytest.approx(VALUES[name], abs=1e-6)


@pytest.mark.parametrize("name", GATED_NAMES)
def test_gated_feed_forward(name: str) -> None:
    """Width and size 1, all weights 1 but up = 3, no bias: φ(1) * 3."""
    layer = GatedFeedForward(width=1, size=1, activation=ACTIVATIONS[GATED_NAMES[name]], bias=False)
    for linear, weight in ((layer.up, 3.0), (layer.gate, 1.0), (layer.down, 1.0)):
        torch.nn.init.constant_(linear.weight, weight)
    expected = 3 * VALUES[GATED_NAMES[name]]
    assert float(layer(torch.ones(1, 1, 1)).detach()) == pytest.approx(expected, abs=1e-5)


def test_plain_feed_forward() -> None:
    """Bias -2 before ReLU: 1 gives 0, 3 gives 1."""
    layer = FeedForward(width=1, size=1, activation=ACTIVATIONS["relu"])
    for parameter, value in zip(layer.parameters(), (1.0, -2.0, 1.0, 0.0), strict=True):
        torch.nn.init.constant_(parameter, value)
    assert layer(torch.tensor([[[1.0], [3.0]]])).flatten().tolist() == [0.0, 1.0]


def test_pooling() -> None:
    hidden = torch.tensor([[[1.0], [2.0], [6.0]], [[3.0], [5.0], [9.0]]])
    right, left = torch.tensor([[1, 1, 1], [1, 1, 0]]), torch.tensor([[1, 1, 1], [0, 1, 1]])
    assert first_token(hidden).flatten().tolist() == [1.0, 3.0]
    assert last_token(hidden).flatten().tolist() == [6.0, 9.0]
    assert last_token(hidden, right).flatten().tolist() == [6.0, 5.0]
    assert last_token(hidden, left).flatten().tolist() == [6.0, 9.0]
    assert mean_of_tokens(hidden, right).flatten().tolist() == [3.0, 4.0]
    assert mean_of_tokens(hidden, torch.zeros(2, 3)).flatten().tolist() == [0.0, 0.0]
