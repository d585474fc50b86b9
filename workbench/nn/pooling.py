"""From one vector per token to one vector per text."""

from __future__ import annotations

from torch import Tensor

__all__ = ["first_token", "last_token", "mean_of_tokens"]


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
