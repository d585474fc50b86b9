"""Depth as recurrence: an encoding of the step, and adaptive halting of each position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workbench.nn.positions.absolute import sinusoids
from workbench.nn.positions.base import PositionEncoding

__all__ = ["Halting", "HaltingState", "HaltingUnit", "add_step", "ponder_cost"]


def add_step(hidden: Tensor, step: int, encoding: PositionEncoding, positions: Tensor) -> Tensor:
    """What step ``step`` (from 0) reads: states (B, T, D) with positions and step in them.

    Dehghani et al. 2019, "Universal Transformers", equation 5: the step is encoded as a position is, by sinusoids. The
    embeddings have the positions in them already, so step 0 adds none.
    """
    if step > 0:
        hidden = encoding.add_to_embeddings(hidden, positions)
    place = torch.full((1,), step + 1, device=hidden.device)
    return hidden + sinusoids(place, hidden.shape[-1]).to(hidden.dtype)


@dataclass(frozen=True)
class HaltingState:
    """After some steps: all (B, T), but for the states (B, T, D)."""

    hidden: Tensor  # what the next step reads; that of a position which has halted stays
    output: Tensor  # sum of the states so far, each times its step's probability
    spent: Tensor  # sum of the probabilities
    steps: Tensor  # steps done
    remainder: Tensor  # probability that was left for the last step; 0 before
    is_running: Tensor


class HaltingUnit(nn.Linear):
    """Scores how likely a position halts; its bias starts at 1."""


class Halting(nn.Module):
    """Adaptive computation time for each position; Graves 2016, equations 5 to 14; Dehghani et al. 2019, section 2.2.

    After each step a position halts with probability σ(w · s + b) of its new state s. It stops at the step where the
    sum of probabilities reaches ``threshold`` (Graves's 1 - ε), or at the last one, which gets what is left to one. The
    output is the mean of the states under these probabilities; others go on reading the last state. Every step is
    computed for all positions, so that a position's result depends on no other text: what is saved is not time.
    """

    def __init__(self, width: int, threshold: float) -> None:
        super().__init__()
        self.probability = HaltingUnit(width, 1)
        self.threshold = threshold

    def start(self, hidden: Tensor) -> HaltingState:
        """Before the first step, for embedded tokens (B, T, D)."""
        exact = torch.promote_types(hidden.dtype, torch.float32)  # half precision is too coarse for sums
        zeros = hidden.new_zeros(hidden.shape[:2], dtype=exact)
        return HaltingState(hidden, torch.zeros_like(hidden), zeros, zeros.long(), zeros, zeros == 0)

    def forward(self, state: HaltingState, hidden: Tensor, is_last: bool) -> HaltingState:
        """After a step that gave ``hidden`` (B, T, D)."""
        chance = self.probability(hidden).squeeze(-1).to(state.spent.dtype).sigmoid()
        running = state.is_running
        halts = running & ((state.spent + chance >= self.threshold) | is_last)
        weight = torch.where(halts, 1 - state.spent, chance) * running
        return HaltingState(
            hidden=torch.where(running[..., None], hidden, state.hidden),
            output=state.output + weight[..., None].to(hidden.dtype) * hidden,
            spent=state.spent + weight,
            steps=state.steps + running,
            remainder=torch.where(halts, weight, state.remainder),
            is_running=running & ~halts,
        )


def ponder_cost(state: HaltingState, tokens: Tensor | None) -> Tensor:
    """Mean of steps plus remainder over tokens (B, T); Graves 2016, equation 14 (its sum, there, is per sequence)."""
    cost = state.steps + state.remainder
    if tokens is None:
        return cost.mean()
    return (cost * tokens).sum() / tokens.sum().clamp(min=1)
