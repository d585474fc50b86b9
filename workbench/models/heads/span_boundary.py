"""SpanBERT's second head: a hidden token from what stands on either side of its span."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["LONGEST_TARGET", "SpanBoundaryHead", "span_boundaries"]

LONGEST_TARGET = 20  # places of a span that are predicted; the release's --max_pair_targets


class SpanBoundaryHead(nn.Module):
    """``y_i = f(x_{s-1}, x_{e+1}, p_{i-s+1})``: Joshi et al. 2020, "SpanBERT", section 3.2, equations 1 to 3.

    ``f`` is two layers, each followed by GeLU and layer norm. ``p`` are learned vectors of places in the span, here as
    wide as the states (in their release 200 wide). ``y_i`` (…, E) is scored against the token table of the masked
    language model, as in their release, with a bias of its own.
    """

    def __init__(self, config: Any, width: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.places = nn.Embedding(LONGEST_TARGET, size)
        self.first, self.first_norm = nn.Linear(3 * size, size), nn.LayerNorm(size)
        self.second, self.second_norm = nn.Linear(size, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        spread = getattr(config, "initializer_range", 0.02)
        for part in (self.places, self.first, self.second):
            nn.init.normal_(part.weight, std=spread)
        for layer in (self.first, self.second):
            nn.init.zeros_(layer.bias)

    def forward(self, left: Tensor, right: Tensor, place: Tensor, table: Tensor) -> Tensor:
        """States of the two boundaries (N, D), places in spans (N,) from 0, token table (V, E): logits (N, V)."""
        inputs = torch.cat([left, right, self.places(place)], dim=-1)  # (N, 3 D)
        hidden = self.first_norm(F.gelu(self.first(inputs)))
        vectors = self.second_norm(F.gelu(self.second(hidden)))  # (N, E)
        return F.linear(vectors, table, self.bias)


def span_boundaries(hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where spans of hidden places begin and end: left and right neighbour, place in the span, whether it is scored.

    ``hidden`` and ``tokens`` (B, T) are true where a token is hidden and where there is one; the four results are
    (B, T). Spans side by side are one, since their boundary would be hidden, too; a span that touches either end of
    its row has no boundary there and is not scored, nor are places after the twentieth.
    """
    length = hidden.shape[1]
    index = torch.arange(length, device=hidden.device).expand_as(hidden)
    left = torch.where(hidden, -1, index).cummax(1).values  # the last place before it that is not hidden
    right = torch.where(hidden, length, index).flip(1).cummin(1).values.flip(1)
    place = index - left - 1
    has_right = (right < length) & tokens.gather(1, right.clamp(max=length - 1))
    scored = hidden & (left >= 0) & tokens.gather(1, left.clamp(min=0)) & has_right & (place < LONGEST_TARGET)
    return left, right, place, scored
