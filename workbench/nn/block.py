"""One layer: self-attention, cross-attention if there is a source, feed-forward or experts."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from workbench.nn.attention import Attention, AttentionContext
from workbench.nn.experts import Experts, Router, Routing
from workbench.nn.feed_forward import FeedForward
from workbench.nn.residual import Residual

__all__ = ["Block", "BlockOutput"]


class BlockOutput(NamedTuple):
    """States (B, T, D), the weights of self- and cross-attention where they exist, and the routes to experts."""

    hidden: Tensor
    weights: Tensor | None = None
    source_weights: Tensor | None = None
    routing: Routing | None = None


class Block(nn.Module):
    """A transformer layer; Vaswani et al. 2017, section 3.1 and figure 1. (B, T, D) to (B, T, D)."""

    def __init__(
        self,
        *,
        attention: Attention,
        attention_residual: Residual,
        feed_forward: FeedForward | Experts,
        feed_forward_residual: Residual,
        router: Router | None = None,
        cross_attention: Attention | None = None,
        cross_attention_residual: Residual | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = attention_residual
        self.cross_attention = cross_attention
        self.cross_attention_residual = cross_attention_residual
        self.router = router  # there is one if the feed-forward part is a mixture of experts
        self.feed_forward = feed_forward
        self.feed_forward_residual = feed_forward_residual

    def forward(
        self, hidden: Tensor, context: AttentionContext, source_context: AttentionContext | None = None
    ) -> BlockOutput:
        """The next hidden states, and what the parts return."""
        update, weights = self.attention(self.attention_residual.enter(hidden), context)
        hidden = self.attention_residual.leave(hidden, update)

        source_weights = None
        if self.cross_attention is not None and self.cross_attention_residual is not None:
            update, source_weights = self.cross_attention(
                self.cross_attention_residual.enter(hidden), source_context
            )
            hidden = self.cross_attention_residual.leave(hidden, update)

        entered, routing = self.feed_forward_residual.enter(hidden), None
        if self.router is None:
            update = self.feed_forward(entered)
        else:
            tokens = None if context.tokens is None else context.tokens[:, -entered.shape[1] :]
            routing = self.router(entered, tokens)
            update = self.feed_forward(entered, routing)
        return BlockOutput(self.feed_forward_residual.leave(hidden, update), weights, source_weights, routing)
