"""BigBird: blocks of tokens meet their neighbours, a few random blocks, and the first and last block, which see all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.nn.attention_functions import EffectiveMap
from workbench.nn.forms.base import EfficientAttention, Layout
from workbench.nn.forms.blocks import (
    ABSENT,
    attend_to_blocks,
    attend_to_rows,
    listed_once,
    masked_softmax,
)

__all__ = ["BigBirdAttention"]


class BigBirdAttention(EfficientAttention):
    """Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences", section 2, internal transformer construction.

    A block meets itself, the blocks before and after it, ``random_blocks`` others that are drawn for each head and
    block from ``seed`` and the layer's number, and the first and the last block of its text; those two meet all. Texts
    are padded inside to a multiple of ``block``. The drawing depends on the text's own number of blocks alone.
    """

    def __init__(self, *, block: int, random_blocks: int, seed: int, **attention: Any) -> None:
        super().__init__(**attention)
        self.block = block
        self.random_blocks = random_blocks
        self.seed = seed

    def mean_keys(self, length: int) -> float:
        """Three neighbours, the random blocks, and the two global blocks as keys and as queries."""
        return float(min((3 + self.random_blocks + 4) * self.block, length))

    def blocks(self, lengths: Tensor, count: int) -> Tensor:
        """Blocks that each block meets in texts of so many tokens (B,), (B, H, N, L); for the rows between the ends."""
        last = self._last(lengths)[:, None, None, None]
        here = torch.arange(count, device=lengths.device)[:, None]
        near = (here + torch.arange(-1, 2, device=lengths.device)).expand(len(lengths), self.heads, -1, -1)
        near = near.masked_fill((near < 0) | (near > last), ABSENT)
        ends = torch.cat((torch.zeros_like(last), last), -1).expand(-1, self.heads, count, -1)
        return listed_once(torch.cat((near, ends, self.drawn(last, count)), -1))

    def drawn(self, last: Tensor, count: int) -> Tensor:
        """Random blocks (B, H, N, R) strictly between the first and ``last`` (B, 1, 1, 1) and off the neighbourhood.

        Without repetition by Floyd's algorithm (Bentley and Floyd 1987, "A Sample of Brilliance"): no table of all
        pairs of blocks is made. Where fewer blocks are left than asked for, all of them are taken.
        """
        block = torch.arange(count, device=last.device).view(1, 1, -1, 1)
        head = torch.arange(self.heads, device=last.device).view(1, -1, 1, 1)
        first_near = (block - 1).clamp(min=1)
        near = ((block + 1).minimum(last - 1) - first_near + 1).clamp(min=0)  # neighbours that are no end
        left = last - 1 - near  # how many blocks there are to draw from, (B, 1, N, 1)
        ranks = left.new_empty(len(last), self.heads, count, 0)
        for draw in range(self.random_blocks):
            top = left - self.random_blocks + draw  # the highest rank that may be drawn; below 0: none
            number = _scrambled(self.seed, self.layer_idx, head, block, draw)  # (1, H, N, 1)
            rank = number % (top + 1).clamp(min=1)
            is_taken = (ranks == rank).any(-1, keepdim=True)
            ranks = torch.cat((ranks, torch.where(is_taken | (top < 0), top, rank)), -1)
        chosen = (
            ranks + 1 + near * (ranks + 1 >= first_near)
        )  # the first block and the neighbours are passed over
        return chosen.masked_fill(ranks < 0, ABSENT)

    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """The listed blocks for all rows, then the first and the last block over all keys."""
        length, dropout = query.shape[2], self.dropout if self.training else 0.0
        query, key, value = (F.pad(states, (0, 0, 0, -length % self.block)) for states in (query, key, value))
        lengths = layout.lengths.view(-1, 1, 1, 1, 1)
        heads = attend_to_blocks(
            query,
            key,
            value,
            self.blocks(layout.lengths, query.shape[2] // self.block),
            lambda queries, keys: keys < lengths,
            block=self.block,
            scaling=self.scaling,
            dropout=dropout,
        )
        visible = layout.tokens(key.shape[2])[:, None, None]
        for start in (torch.zeros_like(layout.lengths), self._last(layout.lengths) * self.block):
            places = start[:, None] + torch.arange(self.block, device=query.device)  # (B, block)
            index = places[:, None, :, None].expand(-1, self.heads, -1, self.head_size)
            rows = attend_to_rows(
                query.gather(2, index), key, value, visible, scaling=self.scaling, dropout=dropout
            )
            heads = heads.scatter(2, index, rows)
        return heads[:, :, :length].transpose(1, 2)

    def _last(self, lengths: Tensor) -> Tensor:
        """The last block that holds a token."""
        return (lengths - 1).clamp(min=0) // self.block

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """The softmax over the keys of the listed blocks."""
        length = key.shape[2]
        count = -(-length // self.block)
        block = torch.arange(length, device=key.device) // self.block
        listed = self.blocks(layout.lengths, count)  # (B, H, N, L)
        meets = (listed[..., None] == torch.arange(count, device=key.device)).any(-2)  # (B, H, N, N)
        is_end = (block == 0) | (block == self._last(layout.lengths)[:, None])
        allowed = meets[:, :, block][..., block] | is_end[:, None, :, None]
        allowed = allowed & layout.visible(length, is_causal=False)
        scores = query @ key.transpose(-1, -2) * self.scaling
        return EffectiveMap(masked_softmax(scores, allowed)), allowed


def _scrambled(*numbers: int | Tensor) -> Tensor:
    """A number from 0 to 2³¹ - 1 for each combination: the same wherever and in whatever order it is asked for."""
    mixed: Tensor = torch.zeros((), dtype=torch.long)
    for number in numbers:
        mixed = (mixed.to(number.device) if isinstance(number, Tensor) else mixed) + number + 1
        for shift, factor in ((16, 0x45D9F3B), (15, 0x119DE1F3)):  # xor-shift and multiply, in 31 bits
            mixed = ((mixed ^ (mixed >> shift)) * factor) & 0x7FFFFFFF
        mixed = mixed ^ (mixed >> 16)
    return mixed
