"""One layer: self-attention, cross-attention if there is a source, feed-forward."""

from __future__ import annotations

from torch import Tensor, nn

from workbench.nn.attention import Attention, AttentionContext
from workbench.nn.feed_forward import FeedForward
from workbench.nn.residual import Residual

__all__ = ["Block"]


class Block(nn.Module):
    """A transformer layer; Vaswani et al. 2017, section 3.1 and figure 1. (B, T, D) to (B, T, D)."""

    def __init__(
        self,
        *,
        attention: Attention,
        attention_residual: Residual,
        feed_forward: FeedForward,
        feed_forward_residual: Residual,
        cross_attention: Attention | None = None,
        cross_attention_residual: Residual | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = attention_residual
        self.cross_attention = cross_attention
        self.cross_attention_residual = cross_attention_residual
        self.feed_forward = feed_forward
        self.feed_forward_residual = feed_forward_residual

    def forward(
        self, hidden: Tensor, context: AttentionContext, source_context: AttentionContext | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The next hidden states, and the weights of self- and cross-attention where they exist."""
        update, weights = self.attention(self.attention_residual.enter(hidden), context)
        hidden = self.attention_residual.leave(hidden, update)

        source_weights = None
        if self.cross_attention is not None and self.cross_attention_residual is not None:
            update, source_weights = self.cross_attention(
                self.cross_attention_residual.enter(hidden), source_context
            )
            hidden = self.cross_attention_residual.leave(hidden, update)

        update = self.feed_forward(self.feed_forward_residual.enter(hidden))
        return self.feed_forward_residual.leave(hidden, update), weights, source_weights
