"""An encoder that reads long texts at fewer places: pooling between groups of layers, and the way back to tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from workbench.models.contexts import source_context
from workbench.models.stack import LayerStack, Passed
from workbench.nn import AttentionContext
from workbench.nn.block import Block, BlockOutput

__all__ = ["FunnelStack", "Pooled", "pool"]


@dataclass(frozen=True)
class Pooled:
    """States (B, N, D), which of them are of tokens (B, N), and the place of each original token among them (B, T)."""

    hidden: Tensor
    tokens: Tensor
    places: Tensor

    def at_tokens(self, hidden: Tensor) -> Tensor:
        """Each token's state (B, T, D): that of the pooled place (B, N, D) that holds it."""
        return hidden.take_along_dim(self.places[..., None], dim=1)


def pool(before: Pooled) -> Pooled:
    """Means of two neighbouring tokens, the first one of the row ([CLS]) kept apart: (B, N, D) to (B, 1 + N // 2, D).

    Dai et al. 2020, "Funnel-Transformer", section 2.2. Neighbours are counted among tokens, wherever padding stands.
    """
    rank = (before.tokens.long().cumsum(-1) - 1).clamp(min=0)  # (B, N)
    place, size = (rank + 1) // 2, 1 + rank.shape[1] // 2
    states = before.hidden * before.tokens[..., None]
    sums = states.new_zeros(len(states), size, states.shape[-1])
    sums = sums.scatter_add(1, place[..., None].expand_as(states), states)
    count = rank.new_zeros(len(rank), size).scatter_add(1, place, before.tokens.long())
    mean = sums / count.clamp(min=1)[..., None]
    return Pooled(mean, count > 0, place.take_along_dim(before.places, dim=1))


class FunnelStack(LayerStack):
    """Groups of ``depth.pool_every`` layers, with half as many places in each as in the one before.

    Dai et al. 2020, "Funnel-Transformer: Filtering out Sequential Redundancy for Efficient Language Processing". The
    first layer of a group attends from pooled states to those before pooling (section 2.2, "pool-query-only"). The
    last ``depth.upsampled_layers`` layers read, at all tokens, the last group's states plus the first group's (section
    2.3, equation 5), also where only the first token's state is wanted. Hidden states are kept for each token.
    """

    def run(
        self,
        hidden: Tensor,
        contexts: dict[str, AttentionContext],
        source_context: AttentionContext | None,
        positions: Tensor,
    ) -> Passed:
        """Down through the groups and up again; see :meth:`LayerStack.run`."""
        full = contexts[self.kinds[0]]
        tokens = hidden.new_ones(hidden.shape[:2], dtype=torch.bool) if full.tokens is None else full.tokens
        everywhere = torch.arange(hidden.shape[1], device=hidden.device).expand(len(hidden), -1)
        now = Pooled(hidden, tokens, everywhere)
        blocks, size = [BlockOutput(hidden)], self.config.depth.pool_every or 1
        last = len(self.kinds) - self.config.depth.upsampled_layers
        group_output, is_pooled = hidden, False
        for index in range(last):
            layer: Any = self.layers[index]
            context = full
            if index and index % size == 0:
                wide, now, is_pooled = now, pool(now), True
                context = self._context(layer, now, wide)
            elif is_pooled:
                context = self._context(layer, now)
            block = BlockOutput(*layer(now.hidden, context))
            now = replace(now, hidden=block.hidden)
            blocks.append(block._replace(hidden=now.at_tokens(block.hidden)))
            group_output = block.hidden if index == size - 1 else group_output
        hidden = blocks[-1].hidden + group_output
        for top in self.layers[last:]:
            blocks.append(BlockOutput(*top(hidden, full)))
            hidden = blocks[-1].hidden
        return Passed(blocks, hidden)

    def places(self, length: int) -> list[tuple[int, int]]:
        """Queries and keys of each layer in a text of ``length`` tokens."""
        size, found, now = self.config.depth.pool_every or 1, [], length
        last = len(self.kinds) - self.config.depth.upsampled_layers
        for index in range(last):
            wide, now = now, 1 + now // 2 if index and index % size == 0 else now
            found.append((now, wide))
        return found + [(length, length)] * (len(self.kinds) - last)

    def _context(self, layer: Block, now: Pooled, wide: Pooled | None = None) -> AttentionContext:
        """From pooled states to themselves, or to the ``wide`` ones before pooling, which the layer norms alike."""
        keys = now if wide is None else wide
        source = keys.hidden if wide is None else layer.attention_residual.enter(keys.hidden)
        found = source_context(self.config, now.hidden, source, keys.tokens.long(), None)
        assert found is not None
        return replace(found, source=None if wide is None else source, tokens=now.tokens)
