"""Convolutions over tokens: gated ones in both directions or from the left, and attention from each of their layers.

Gehring et al. 2017, "Convolutional Sequence to Sequence Learning". Axes: B text, T target token, S source token, D
width of a layer, E width of token vectors, K kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.nn.attention_functions import AttentionFunction, eager_attention

__all__ = ["ConvolutionBlock", "GatedConvolution", "MultiStepAttention", "SourceContext", "joined"]


def joined(one: Tensor, other: Tensor) -> Tensor:
    """The sum of two, times √0.5, which keeps the variance of equal and independent ones (section 3.5)."""
    return (one + other) * math.sqrt(0.5)


class GatedConvolution(nn.Module):
    """A convolution with a gated linear unit: A * sigmoid(B) of its two halves (section 3.2; Dauphin et al. 2017).

    States (B, T, D) to (B, T, D). ``is_causal``: from the token itself and the K - 1 before it; else from
    (K - 1) / 2 to either side. Padding counts as zero, like what is outside the text.
    """

    def __init__(self, *, width: int, kernel: int, is_causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, 2 * width, kernel)
        self.reach = kernel - 1
        self.is_causal = is_causal
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, hidden: Tensor, is_token: Tensor, before: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Gated states, and the last K - 1 inputs (B, K - 1, D), which are ``before`` the next tokens.

        ``is_token`` (B, T) is true at tokens.
        """
        hidden = self.dropout(hidden) * is_token[..., None].to(hidden.dtype)
        if not self.is_causal:
            hidden = F.pad(hidden, (0, 0, self.reach // 2, self.reach // 2))
        elif before is None:
            hidden = F.pad(hidden, (0, 0, self.reach, 0))
        else:
            hidden = torch.cat([before, hidden], dim=1)
        gated = F.glu(self.convolution(hidden.transpose(1, 2)), dim=1).transpose(1, 2)
        return gated, hidden[:, hidden.shape[1] - self.reach :]


@dataclass(frozen=True)
class SourceContext:
    """What the attention of all layers reads; made once a pass."""

    keys: Tensor  # (B, S, E): the encoder's output z
    values: Tensor  # (B, S, E): z with the source's token vectors e
    scale: Tensor  # (B, 1, 1): the square root of the number of source tokens
    mask: Tensor | None = None  # in the form that the function wants
    function: AttentionFunction = eager_attention


class MultiStepAttention(nn.Module):
    """Attention of one decoder layer to the source, by one head (section 3.3).

    A state h with the vector g of the token read gives the query d = W h + b + g; weights are the softmax of d·z, and
    the context is their sum of values times √S, since a sum of S equal shares would shrink (section 3.5). Sums of two
    are scaled by √0.5, as those of residual connections are.
    """

    def __init__(self, *, width: int, tokens: int, layer_idx: int) -> None:
        super().__init__()
        # The names below are those by which attention functions in transformers' registry know a module.
        self.num_key_value_groups = 1
        self.scaling = 1.0
        self.is_causal = False
        self.layer_idx = layer_idx
        self.query = nn.Linear(width, tokens)
        self.output = nn.Linear(tokens, width)

    def forward(self, hidden: Tensor, target: Tensor, source: SourceContext) -> tuple[Tensor, Tensor | None]:
        """States (B, T, D) and token vectors (B, T, E) to contexts (B, T, D) and weights (B, 1, T, S)."""
        query = joined(self.query(hidden), target)[:, None]  # one head
        heads, weights = source.function(
            self,
            query,
            source.keys[:, None],
            source.values[:, None],
            source.mask,
            dropout=0.0,
            scaling=self.scaling,
        )
        return self.output(heads.flatten(2) * source.scale), weights  # (B, T, 1, E) to (B, T, D)


class ConvolutionBlock(nn.Module):
    """A gated convolution, attention to the source where there is one, and a residual connection."""

    def __init__(self, convolution: GatedConvolution, attention: MultiStepAttention | None = None) -> None:
        super().__init__()
        self.convolution = convolution
        self.attention = attention

    def forward(
        self,
        hidden: Tensor,
        is_token: Tensor,
        target: Tensor | None = None,
        source: SourceContext | None = None,
        before: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """States (B, T, D) to states, the weights of attention, and what the next tokens need of these."""
        states, last = self.convolution(hidden, is_token, before)
        weights = None
        if self.attention is not None and target is not None and source is not None:
            context, weights = self.attention(states, target, source)
            states = joined(states, context)
        return joined(states, hidden), weights, last
