"""Mixtures of experts: a router sends each token through a few of several feed-forward parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.nn.feed_forward import FeedForward

__all__ = ["Experts", "Router", "Routing", "balance_loss"]


class Routing(NamedTuple):
    """Where a layer's router sends each token: (B, T, k) of k experts for each, and (B, T, E) over all E."""

    experts: Tensor  # (B, T, k), the most probable first
    weights: Tensor  # (B, T, k), zero at padding and where an expert is full
    probabilities: Tensor  # (B, T, E), float32
    tokens: Tensor | None = None  # (B, T), true at tokens; ``None``: all are


class Router(nn.Module):
    """Chooses ``chosen`` of ``experts`` for each token by a softmax over learned scores.

    One expert is weighted with its probability among all (Fedus et al. 2022, "Switch Transformers", equation 2),
    several with a softmax over their own scores (Shazeer et al. 2017, "Outrageously Large Neural Networks",
    equations 3 and 5). ``is_noisy`` adds normal noise of learned size to the scores in training (equation 4).

    ``capacity_factor`` c bounds an expert, in training only, to c · k · tokens / E tokens of a batch, padding not
    counted; earlier tokens go first, so that what follows a token decides nothing about it. One that finds its expert
    full gets nothing from it and goes on by the residual. Evaluation has no capacity, so that a token's result depends
    on no other text.
    """

    def __init__(
        self,
        *,
        width: int,
        experts: int,
        chosen: int = 1,
        capacity_factor: float | None = None,
        is_noisy: bool = False,
    ) -> None:
        super().__init__()
        self.scores = nn.Linear(width, experts, bias=False)
        self.noise = nn.Linear(width, experts, bias=False) if is_noisy else None
        self.chosen = chosen
        self.capacity_factor = capacity_factor

    def forward(self, hidden: Tensor, tokens: Tensor | None = None) -> Routing:
        """Routes of ``hidden`` (B, T, D); ``tokens`` (B, T) is true at tokens."""
        scores = self.scores(hidden)
        if self.noise is not None and self.training:
            scores = scores + torch.randn_like(scores) * F.softplus(self.noise(hidden))
        # Fedus et al. 2022, section 2.4: half precision is too coarse for a router
        probabilities = scores.to(torch.promote_types(scores.dtype, torch.float32)).softmax(-1)
        weights, experts = probabilities.topk(self.chosen, dim=-1)
        if self.chosen > 1:
            weights = weights / weights.sum(-1, keepdim=True)
        if tokens is not None:
            weights = weights * tokens[..., None]
        if self.training and self.capacity_factor is not None:
            weights = weights * self._has_room(experts, tokens)
        return Routing(experts, weights, probabilities, tokens)

    def _has_room(self, experts: Tensor, tokens: Tensor | None) -> Tensor:
        """Whether the expert (B, T, k) still has room when the token comes to it."""
        count = self.scores.out_features
        sent = F.one_hot(experts, count)  # (B, T, k, E)
        if tokens is not None:
            sent = sent * tokens[..., None, None]
        total = experts[..., 0].numel() if tokens is None else int(tokens.sum())
        capacity = max(1, math.ceil((self.capacity_factor or 0) * self.chosen * total / count))
        queue = sent.flatten(0, 2)  # token by token, the first choice of each before its second
        place = (queue.cumsum(0) * queue).sum(-1)  # 1 is the first in the queue
        return (place <= capacity).view(experts.shape)


class Experts(nn.Module):
    """The weighted sum of what a token's experts give; Shazeer et al. 2017, equation 1. (B, T, D) to (B, T, D)."""

    def __init__(self, make: Callable[[], FeedForward], count: int) -> None:
        super().__init__()
        self.experts = nn.ModuleList(make() for _ in range(count))

    def forward(self, hidden: Tensor, routing: Routing) -> Tensor:
        """Each expert runs on the tokens that are sent to it, and on no others."""
        states = hidden.flatten(0, 1)  # (B * T, D)
        experts, weights = routing.experts.flatten(0, 1), routing.weights.flatten(0, 1)
        output = torch.zeros_like(states)
        for number, expert in enumerate(self.experts):
            token, choice = ((experts == number) & (weights > 0)).nonzero(as_tuple=True)
            given = weights[token, choice, None] * expert(states[token])
            output = output.index_add(0, token, given.to(output.dtype))
        return output.view_as(hidden)


def balance_loss(routing: Routing) -> Tensor:
    """E Σ fᵢ Pᵢ: 1 for even use of the experts, up to E for a single one; Fedus et al. 2022, equations 4 to 6.

    fᵢ is the share of routes that choose expert i, before any is refused for its capacity, Pᵢ the mean probability of
    expert i, over tokens. It stands for both losses of Shazeer et al. 2017, too.
    """
    probabilities, experts = routing.probabilities, routing.experts
    count = probabilities.shape[-1]
    is_token = probabilities.new_ones(experts.shape[:2])
    if routing.tokens is not None:
        is_token = routing.tokens.to(probabilities.dtype)
    tokens = is_token.sum().clamp(min=1)
    chosen = F.one_hot(experts, count).to(probabilities.dtype).mean(2)  # (B, T, E)
    shares = (chosen * is_token[..., None]).sum((0, 1)) / tokens
    means = (probabilities * is_token[..., None]).sum((0, 1)) / tokens
    return count * (shares * means).sum()
