"""Reformer: each token attends among tokens whose vectors point the same way, found by hashing."""

from __future__ import annotations

from dataclasses import dataclass
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

    In the paper's causal form later tokens get no weight, but how many fall into which bucket decides where chunks are
    cut, and so which earlier tokens are seen. It is taken with ``across_buckets``. Without, a causal form depends on
    nothing later: a token attends to up to ``block`` earlier ones, the nearest of those in its own bucket.
    """

    can_be_causal: ClassVar[bool] = True
    can_cache: ClassVar[bool] = False
    rotations: Tensor

    def __init__(
        self,
        *,
        block: int,
        rounds: int,
        buckets: int,
        seed: int,
        across_buckets: bool = False,
        **attention: Any,
    ) -> None:
        super().__init__(**attention)
        del self.key
        self.is_strict = self.is_causal and not across_buckets
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
        found = self._rounds(query, key, layout)
        values = _with_previous(_gathered(_padded(value, self.block), found.order), layout, self.block)
        weights = F.dropout(found.weights * found.share[..., None], self.dropout, self.training)
        mixed = (weights.to(value.dtype) @ values).flatten(3, 4)  # (B, H, R, T, d)
        return _rows(mixed, _inverse(found.order.flatten(3))).sum(2)[:, :, : query.shape[2]].transpose(1, 2)

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """The sum of the rounds' maps."""
        length, found = query.shape[2], self._rounds(query, key, layout)
        width = length + -length % self.block
        pairs = (found.order[..., :, None] * width + found.places[..., None, :]).flatten(2)
        empty = found.weights.new_zeros(*query.shape[:2], width * width)
        weights, seen = (
            empty.scatter_add(2, pairs, added.flatten(2)).unflatten(2, (width, width))[..., :length, :length]
            for added in (found.weights * found.share[..., None], found.seen.to(empty.dtype))
        )
        visible = (seen > 0) & layout.visible(length, is_causal=self.is_causal)
        return EffectiveMap(weights.to(value.dtype)), visible

    def _rounds(self, query: Tensor, key: Tensor, layout: Layout) -> _Rounds:
        query, key = _padded(query, self.block), _padded(key, self.block)
        order = self.chunks(query, layout)
        places = _with_previous(order, layout, self.block)
        keys = _with_previous(_gathered(key, order), layout, self.block)
        scores = _gathered(query, order) @ keys.transpose(-1, -2) * self.scaling
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        is_itself = order[..., :, None] == places[..., None, :]
        seen = self._allowed(query, order, places, layout)
        scores = scores.masked_fill(~seen, _BARRED).masked_fill(is_itself, _ITSELF)
        sums = scores.logsumexp(-1).flatten(3)  # (B, H, R, T)
        share = sums.take_along_dim(_inverse(order.flatten(3)), 3).softmax(2)
        share = share.take_along_dim(order.flatten(3), 3).view_as(order)
        return _Rounds(order, places, scores.softmax(-1), share, seen | is_itself)

    def _allowed(self, query: Tensor, order: Tensor, places: Tensor, layout: Layout) -> Tensor:
        """Which tokens of two chunks may be attended to, (B, H, R, N, block, 2 · block)."""
        own, other = order[..., :, None], places[..., None, :]
        allowed = (other < layout.lengths.view(-1, 1, 1, 1, 1, 1)).expand(*own.shape[:-1], other.shape[-1])
        if self.is_causal:
            allowed = allowed & (other <= own)
        if not self.is_strict:
            return allowed
        rounds = (
            torch.arange(self.rounds, device=order.device)[:, None] * self.buckets
        )  # no bucket in two rounds
        bucket = (self.hashed(query) + rounds).take_along_dim(order.flatten(3), 3).view_as(order)
        nearby = torch.arange(2 * self.block, device=order.device)
        is_near = nearby[self.block :, None] - nearby <= self.block
        return (
            allowed
            & is_near
            & (bucket[..., None] == _with_previous(bucket, layout, self.block)[..., None, :])
        )


@dataclass(frozen=True)
class _Rounds:
    """Sorted tokens and what they attend to: ``share`` of its round in a token's row, ``seen`` the keys in a chunk."""

    order: Tensor  # (B, H, R, N, block): places in the text
    places: Tensor  # (B, H, R, N, 2 · block), of the keys
    weights: Tensor  # (B, H, R, N, block, 2 · block), within the round
    share: Tensor  # (B, H, R, N, block)
    seen: Tensor  # (B, H, R, N, block, 2 · block)


def _padded(states: Tensor, block: int) -> Tensor:
    """States (B, H, T, d) with zeros behind, up to a multiple of ``block`` tokens."""
    return F.pad(states, (0, 0, 0, -states.shape[2] % block))


def _gathered(states: Tensor, order: Tensor) -> Tensor:
    """States (B, H, T, d) at places (B, H, R, N, block): (B, H, R, N, block, d)."""
    return _rows(states, order.flatten(2)).unflatten(2, order.shape[2:])


def _rows(states: Tensor, index: Tensor) -> Tensor:
    """Vectors of states (…, T, d) at places (…, S): (…, S, d)."""
    first = torch.arange(index[..., 0].numel(), device=index.device).view(index.shape[:-1]) * states.shape[-2]
    chosen = states.flatten(0, -2).index_select(0, (index + first[..., None]).flatten())
    return chosen.view(*index.shape, -1)


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
