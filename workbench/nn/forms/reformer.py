"""Reformer: each token attends among tokens whose vectors point the same way, found by hashing."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.nn.attention import AttentionContext
from workbench.nn.attention_functions import EffectiveMap
from workbench.nn.forms.base import EfficientAttention, Layout

__all__ = ["ReformerAttention"]

_BARRED = -1e9  # score of padding and, if causal, of later tokens
_ITSELF = -1e5  # score of a token for itself: below all others, above what is barred


class ReformerAttention(EfficientAttention):
    """Kitaev et al. 2020, "Reformer: The Efficient Transformer", section 2, LSH attention.

    Keys are the queries, scaled to one length. In each of ``rounds`` a token falls into one of ``buckets``: the largest
    coordinate, with its sign, after a random projection (Andoni et al. 2015, section 3). Tokens sorted by bucket are
    cut into chunks of ``block``; each attends to its own chunk and the one before, and to itself only where nothing
    else is there. Before the first chunk of a round comes the last one, of this text alone, of the round before (of the
    last round, for the first). Rounds are weighted by the sums of their exponentiated scores. Padding is sorted last.

    As in the paper, a causal form shows no later token, but later tokens do decide which chunk a token falls into.
    There is no step over cached keys for the same reason: a new token would move the chunks of all the others.
    """

    can_be_causal: ClassVar[bool] = True
    can_cache: ClassVar[bool] = False
    rotations: Tensor

    def __init__(self, *, block: int, rounds: int, buckets: int, seed: int, **attention: Any) -> None:
        super().__init__(**attention)
        del self.key
        self.block, self.rounds, self.buckets = block, rounds, buckets
        generator = torch.Generator().manual_seed(seed + self.layer_idx)
        shape = (self.heads, self.head_size, rounds, buckets // 2)
        drawn = torch.randn(shape, device="cpu", generator=generator)
        self.register_buffer("rotations", drawn)  # saved with the weights: a run does not depend on the draw

    def mean_keys(self, length: int) -> float:
        """Two chunks a round, and the projections of the hash, which come to a quarter of a key for each bucket."""
        chunks = -(-length // self.block)
        return self.rounds * (min(2, chunks) * self.block + self.buckets / 4)

    def project(self, hidden: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, d), the same with length √d as keys, and values."""
        query = self._split(self.query(hidden))
        if context.positions is not None:
            query, _ = context.positions.rotate_query_key(query, query, context.angles)
        key = query * torch.rsqrt(query.square().mean(-1, keepdim=True) + 1e-6)
        return query, key, self._split(self.value(hidden))

    @torch.no_grad()
    def hashed(self, vectors: Tensor) -> Tensor:
        """Buckets of vectors (B, H, T, d) in each round: (B, H, R, T)."""
        turned = torch.einsum("bhtd,hdrk->bhrtk", vectors, self.rotations.to(vectors.dtype))
        return torch.cat((turned, -turned), -1).argmax(-1)

    @torch.no_grad()
    def chunks(self, query: Tensor, layout: Layout) -> Tensor:
        """Places of tokens sorted by bucket, within a bucket in the order of the text: (B, H, R, N, block)."""
        padding = ~layout.tokens(query.shape[2])[:, None, None]
        buckets = self.hashed(query).masked_fill(padding, self.buckets)
        return buckets.argsort(dim=-1, stable=True).unflatten(-1, (-1, self.block))

    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """Chunk by chunk, then back to the order of the text."""
        length = query.shape[2]
        query, key, value = (_padded(states, self.block) for states in (query, key, value))
        order = self.chunks(query, layout)  # (B, H, R, N, block)
        weights, logs = self._weights(query, key, order, layout)
        values = _with_previous(_gathered(value, order), layout, self.block)
        mixed = F.dropout(weights.to(value.dtype), self.dropout, self.training) @ values
        back = _inverse(order.flatten(3))  # (B, H, R, T)
        mixed = mixed.flatten(3, 4).take_along_dim(back[..., None], 3)
        share = logs.flatten(3).take_along_dim(back, 3).softmax(2).to(value.dtype)
        return (mixed * share[..., None]).sum(2)[:, :, :length].transpose(1, 2)

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """The sum of the rounds' maps, each row times the round's share; a token is visible where a chunk meets it."""
        length = query.shape[2]
        query, key = _padded(query, self.block), _padded(key, self.block)
        order = self.chunks(query, layout)
        weights, logs = self._weights(query, key, order, layout)
        back = _inverse(order.flatten(3))
        share = logs.flatten(3).take_along_dim(back, 3).softmax(2)  # (B, H, R, T)
        weights = weights * share.take_along_dim(order.flatten(3), 3).view_as(logs)[..., None]
        places = (
            order[..., :, None] * query.shape[2] + _with_previous(order, layout, self.block)[..., None, :]
        )
        flat = weights.new_zeros(*query.shape[:2], query.shape[2] ** 2)
        found = flat.scatter_add(2, places.flatten(2), weights.flatten(2))
        met = flat.scatter(2, places.flatten(2), 1.0).bool()
        found, met = (wide.unflatten(2, (query.shape[2], -1))[..., :length, :length] for wide in (found, met))
        return EffectiveMap(found.to(value.dtype)), met & layout.visible(length, is_causal=self.is_causal)

    def _weights(self, query: Tensor, key: Tensor, order: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Weights (B, H, R, N, block, 2 · block) within each round, and logarithms of the sums of their scores."""
        keys = _with_previous(_gathered(key, order), layout, self.block)
        scores = _gathered(query, order) @ keys.transpose(-1, -2) * self.scaling
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        own, other = order[..., :, None], _with_previous(order, layout, self.block)[..., None, :]
        barred = other >= layout.lengths.view(-1, 1, 1, 1, 1, 1)
        if self.is_causal:
            barred = barred | (other > own)
        scores = scores.masked_fill(barred, _BARRED).masked_fill(own == other, _ITSELF)
        return scores.softmax(-1), scores.logsumexp(-1)


def _padded(states: Tensor, block: int) -> Tensor:
    """States (B, H, T, d) with zeros behind, up to a multiple of ``block`` tokens."""
    return F.pad(states, (0, 0, 0, -states.shape[2] % block))


def _gathered(states: Tensor, order: Tensor) -> Tensor:
    """States (B, H, T, d) at places (B, H, R, N, block): (B, H, R, N, block, d)."""
    return states.take_along_dim(order.flatten(2)[..., None], 2).unflatten(2, order.shape[2:])


def _inverse(order: Tensor) -> Tensor:
    """The permutations (…, T) that undo ``order``."""
    places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, places)


def _with_previous(chunked: Tensor, layout: Layout, block: int) -> Tensor:
    """Each chunk of (B, H, R, N, block, …) behind the one before it: (B, H, R, N, 2 · block, …).

    The last chunk of a text is the last one with a token in it, so that padding behind changes nothing.
    """
    last = (layout.lengths - 1).clamp(min=0) // block  # (B,)
    rows = torch.arange(len(last), device=last.device)
    before_first = chunked.roll(1, 2)[rows, :, :, last].unsqueeze(3)  # (B, H, R, 1, block, …)
    return torch.cat((torch.cat((before_first, chunked[:, :, :, :-1]), 3), chunked), 4)
