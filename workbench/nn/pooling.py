"""From one vector per token to one vector per text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["AttentionPooling", "LabelwiseLinear", "first_token", "last_token", "mean_of_tokens"]


def first_token(hidden: Tensor, mask: Tensor | None = None) -> Tensor:
    """The state at position 0 (B, D) of hidden states (B, T, D); BERT's [CLS]."""
    return hidden[:, 0]


def last_token(hidden: Tensor, mask: Tensor | None = None) -> Tensor:
    """The state at the last position that ``mask`` (B, T) keeps: (B, T, D) to (B, D); GPT's [EXTRACT].

    Correct for left and right padding; a row without tokens gives its position 0.
    """
    if mask is None:
        return hidden[:, -1]
    length = hidden.shape[1]
    positions = mask.new_ones(length).cumsum(0) - 1  # 0, 1, …, T - 1
    last = (positions * (mask != 0)).argmax(-1)  # (B,)
    return hidden.take_along_dim(last[:, None, None], dim=1).squeeze(1)


def mean_of_tokens(hidden: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean over the positions that ``mask`` (B, T) keeps: (B, T, D) to (B, D); zero if there are none."""
    if mask is None:
        return hidden.mean(1)
    kept = mask.to(hidden.dtype)[..., None]
    return (hidden * kept).sum(1) / kept.sum(1).clamp(min=1)


class AttentionPooling(nn.Module):
    """A text as a weighted mean of its tokens, once for each of A aspects, whose queries are learned.

    Yang et al. 2016, "Hierarchical Attention Networks for Document Classification", equations 5 to 7, with a query
    (their context vector u_w) for each aspect: u_t = tanh(W h_t + b), a_t = softmax_t(u_t · q), s = Σ a_t h_t.
    """

    def __init__(self, width: int, aspects: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.queries = nn.Linear(width, aspects, bias=False)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """States (B, T, D) to vectors (B, A, D) and weights (B, A, T), zero where ``mask`` (B, T) is.

        The weights of an aspect sum to one; of a row without tokens they are equal.
        """
        scores = self.queries(torch.tanh(self.dense(hidden))).transpose(1, 2).float()  # (B, A, T)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None] == 0, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1).to(hidden.dtype)
        return weights @ hidden, weights


class LabelwiseLinear(nn.Linear):
    """A score for each label from a vector of its own: (…, L, D) to (…, L).

    Mullenbach et al. 2018, "Explainable Prediction of Medical Codes from Clinical Text", equation 4.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Label l is scored by the l-th row of the weight on the l-th vector."""
        scores = (input * self.weight).sum(-1)
        return scores if self.bias is None else scores + self.bias
