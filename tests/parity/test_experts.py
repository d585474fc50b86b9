"""Mixtures of experts against transformers' own blocks, from copied random weights."""

from __future__ import annotations

import torch
from torch.nn import functional as F
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.switch_transformers.modeling_switch_transformers import load_balancing_loss_func

from workbench.nn import Experts, GatedFeedForward, Router, Routing, balance_loss


def test_two_of_several_is_mixtral() -> None:
    """Jiang et al. 2024, "Mixtral of Experts", section 2.1: SwiGLU experts, a softmax over the best two."""
    torch.manual_seed(0)
    config = MixtralConfig(hidden_size=12, intermediate_size=20, num_local_experts=5, num_experts_per_tok=2)
    config._experts_implementation = "eager"
    theirs = MixtralSparseMoeBlock(config).eval()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    router = Router(width=12, experts=5, chosen=2).eval()
    ours = Experts(lambda: GatedFeedForward(width=12, size=20, activation=F.silu, bias=False), 5)
    with torch.no_grad():
        router.scores.weight.copy_(theirs.gate.weight)
        for number, expert in enumerate(ours.experts):
            gate, up = theirs.experts.gate_up_proj[number].chunk(2)
            expert.gate.weight.copy_(gate)  # type: ignore[union-attr, operator]
            expert.up.weight.copy_(up)  # type: ignore[union-attr, operator]
            expert.down.weight.copy_(theirs.experts.down_proj[number])  # type: ignore[union-attr, operator]
        hidden = torch.randn(3, 7, 12)
        expected = theirs(hidden.clone())
        torch.testing.assert_close(ours(hidden, router(hidden)), expected, atol=1e-4, rtol=1e-5)


def test_the_balance_loss_is_switch_transformers() -> None:
    """Of one group of tokens; theirs averages over the rows of a batch."""
    torch.manual_seed(0)
    probabilities = torch.randn(1, 11, 4).softmax(-1)
    experts = probabilities.argmax(-1, keepdim=True)
    ours = balance_loss(Routing(experts, probabilities.amax(-1, keepdim=True), probabilities))
    torch.testing.assert_close(ours, torch.as_tensor(load_balancing_loss_func(probabilities, experts)))
