"""Recurrent layers that read tokens only, single steps of them, and the alignment of a state with a source.

Axes: B text, T target token, S source token, E width of what is read, D width of a state.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

__all__ = ["CELLS", "SCORES", "AlignmentScore", "RecurrentCell", "RecurrentLayer", "TokenOrder"]

CELLS = ("gru", "lstm")
SCORES = ("additive", "dot", "general")

State = tuple[Tensor, ...]
"""A cell's state, (B, D) each: one tensor of a GRU; hidden state and memory of an LSTM. The first is read."""


class TokenOrder(NamedTuple):
    """Where the tokens of padded rows are, wherever the padding stands."""

    places: Tensor  # (B, S) of each row: its tokens' positions in order, then those of padding
    lengths: Tensor  # (B,) tokens of each row, 1 for a row without any

    @classmethod
    def of(cls, mask: Tensor | None, vectors: Tensor) -> TokenOrder:
        """From a mask (B, S), nonzero at tokens; without one every position of ``vectors`` (B, S, E) is a token."""
        rows, length = vectors.shape[:2]
        if mask is None:
            mask = torch.ones(rows, length, dtype=torch.long, device=vectors.device)
        is_padding = mask.eq(0).long()
        return cls(is_padding.argsort(dim=1, stable=True), (length - is_padding.sum(1)).clamp(min=1))

    def backwards(self) -> TokenOrder:
        """The same tokens from the last to the first."""
        count = self.places.shape[1]
        place = torch.arange(count, device=self.places.device)[None]  # (1, S)
        turned = torch.where(place < self.lengths[:, None], self.lengths[:, None] - 1 - place, place)
        return TokenOrder(self.places.gather(1, turned), self.lengths)

    def ends(self, states: Tensor, *, first: bool) -> Tensor:
        """States (B, D) at the first or the last token of rows (B, S, D)."""
        last = self.places.gather(1, self.lengths[:, None] - 1)  # (B, 1)
        place = self.places[:, :1] if first else last
        return states.gather(1, place[..., None].expand(-1, -1, states.shape[-1]))[:, 0]


class RecurrentLayer(nn.Module):
    """A GRU (Cho et al. 2014) or LSTM (Hochreiter and Schmidhuber 1997) over texts, in one direction or in both.

    (B, S, E) to (B, S, D), or (B, S, 2 D) with the forward states first. Padding is not read, wherever it stands,
    and its states are zero. The GRU resets the product with the state, as PyTorch's does, not the state itself. An LSTM
    may have more ``units`` than its states are wide, and project (Sak et al. 2014).
    """

    def __init__(
        self, *, kind: str, inputs: int, width: int, bidirectional: bool = False, units: int | None = None
    ) -> None:
        super().__init__()
        if units is None or units == width:
            layer = nn.GRU if kind == "gru" else nn.LSTM
            self.recurrence = layer(inputs, width, batch_first=True, bidirectional=bidirectional)
        else:
            self.recurrence = nn.LSTM(
                inputs, units, batch_first=True, bidirectional=bidirectional, proj_size=width
            )

    def forward(self, vectors: Tensor, order: TokenOrder) -> Tensor:
        """States of each token."""
        index = order.places[..., None]
        ordered = vectors.gather(1, index.expand_as(vectors))  # tokens first
        packed = pack_padded_sequence(ordered, order.lengths.cpu(), batch_first=True, enforce_sorted=False)
        with _differentiable(self, vectors), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")
            output, _ = self.recurrence(packed)
        states, _ = pad_packed_sequence(output, batch_first=True, total_length=vectors.shape[1])
        return torch.zeros_like(states).scatter(1, index.expand_as(states), states)


@contextmanager
def _differentiable(module: nn.Module, vectors: Tensor) -> Iterator[None]:
    """cuDNN has no backward pass of recurrent layers outside training; PyTorch's own kernels have one."""
    if module.training or not (vectors.is_cuda and torch.is_grad_enabled()):
        yield
        return
    with torch.backends.cudnn.flags(enabled=False):
        yield


class RecurrentCell(nn.Module):
    """One step of a GRU or LSTM: what it reads (B, E) and its state to its next state."""

    def __init__(self, *, kind: str, inputs: int, width: int) -> None:
        super().__init__()
        self.has_memory = kind == "lstm"
        self.step = nn.LSTMCell(inputs, width) if self.has_memory else nn.GRUCell(inputs, width)

    def forward(self, vector: Tensor, state: State) -> State:
        """The next state."""
        if self.has_memory:
            return tuple(self.step(vector, state))
        return (self.step(vector, state[0]),)


class AlignmentScore(nn.Module):
    """Attention of decoder states to a source: scores, weights after the softmax, and the weighted mean.

    ``additive``: v·tanh(W s + U h), Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align
    and Translate", appendix A.1.2 (the ``concat`` of Luong et al.). ``dot``: s·h, and ``general``: s·W h, Luong et
    al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", equation 8.
    """

    def __init__(self, *, score: str, query: int, source: int, size: int) -> None:
        """Widths of the decoder's state and of the source's, and of the hidden layer of additive scores."""
        super().__init__()
        self.is_additive = score == "additive"
        self.query = nn.Linear(query, size, bias=False) if self.is_additive else nn.Identity()
        width = size if self.is_additive else query
        self.key = nn.Identity() if score == "dot" else nn.Linear(source, width, bias=False)
        self.energy = nn.Linear(size, 1, bias=False) if self.is_additive else None

    def keys(self, source: Tensor) -> Tensor:
        """What does not change from step to step: (B, S, source) to (B, S, width)."""
        return self.key(source)

    def forward(
        self, state: Tensor, keys: Tensor, source: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """A state (B, D) to the weighted mean of the source (B, source) and the weights (B, S).

        ``mask`` (B, S) is nonzero at tokens.
        """
        query = self.query(state)
        if self.energy is not None:
            scores = self.energy(torch.tanh(query[:, None] + keys)).squeeze(-1)
        else:
            scores = (keys @ query[..., None]).squeeze(-1)
        if mask is not None:
            scores = scores.masked_fill(mask.eq(0), torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        return (weights[:, None] @ source).squeeze(1), weights
