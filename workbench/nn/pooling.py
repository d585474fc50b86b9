"""From one vector per token to one vector per text."""

from __future__ import annotations

from torch import Tensor, nn

from workbench.nn.masks import blocked_value

__all__ = ["AttentionPooling", "first_token", "last_token", "mean_of_tokens"]


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
    """A learned query scores each token; the text is the weighted mean: (B, T, D) to (B, D).

    Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", equation 5.
    """

    def __init__(self, *, width: int, hidden: int | None = None) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden or width, bias=False)
        self.score = nn.Linear(hidden or width, 1, bias=False)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """Weighted mean of ``hidden`` (B, T, D) over the tokens that ``mask`` (B, T) keeps."""
        return (self.weights(hidden, mask)[..., None] * hidden).sum(1)

    def weights(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """The weight of each token (B, T); rows sum to one."""
        scores = self.score(self.hidden(hidden).tanh()).squeeze(-1)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, blocked_value(scores.dtype))
        return scores.softmax(-1)
