"""Attention over blocks of tokens: each block of queries meets a short list of blocks of keys.

The work is (queries) x (keys of the listed blocks), so it grows with the length of the text and not with its square.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["ABSENT", "attend_to_blocks", "attend_to_rows", "in_blocks", "listed_once", "masked_softmax"]

ABSENT = -1  # in a list of blocks: none


def in_blocks(states: Tensor, block: int) -> Tensor:
    """(B, H, T, d) to (B, H, N, block, d), the last block padded with zeros."""
    padded = F.pad(states, (0, 0, 0, -states.shape[2] % block))
    return padded.unflatten(2, (-1, block))


def listed_once(blocks: Tensor) -> Tensor:
    """The lists (…, L) with every repeated entry made absent, so that no key counts twice."""
    same = (blocks[..., :, None] == blocks[..., None, :]).tril(-1).any(-1)
    return blocks.masked_fill(same, ABSENT)


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the last axis of what is allowed, in float32 at least; a row without any is finite."""
    precision = torch.promote_types(scores.dtype, torch.float32)
    blocked = scores.to(precision).masked_fill(~allowed, torch.finfo(precision).min)
    return blocked.softmax(-1).to(scores.dtype)


def attend_to_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    blocks: Tensor,
    allowed: Callable[[Tensor, Tensor], Tensor],
    *,
    block: int,
    scaling: float,
    dropout: float = 0.0,
) -> Tensor:
    """Heads (B, H, T, d) of queries, keys and values (B, H, T, d).

    ``blocks`` (B or 1, H or 1, N, L) lists the blocks of keys that each block of queries meets, or ``ABSENT``;
    ``allowed`` says, of places (N, block, 1) and (B or 1, H or 1, N, 1, L · block), which of their pairs attend.
    Each block of queries is then a short text of its own, which attends to its L · block keys.
    """
    batch, heads, length, _ = query.shape
    queries, keys, values = (in_blocks(states, block) for states in (query, key, value))
    count, places = queries.shape[2], torch.arange(queries.shape[2] * block, device=query.device)
    key_places = (blocks[..., None] * block + places[:block]).flatten(3)[..., None, :]  # (…, N, 1, L · block)
    met = allowed(places.view(count, block, 1), key_places)
    met = met & (blocks != ABSENT).repeat_interleave(block, -1)[..., None, :]
    mask = torch.zeros_like(met, dtype=query.dtype).masked_fill(~met, torch.finfo(query.dtype).min / 2)
    blocks, mask = blocks.expand(batch, heads, -1, -1), mask.expand(batch, -1, -1, block, -1)
    texts = (queries, _listed(keys, blocks), _listed(values, blocks), mask)
    queries, keys, values, mask = (states.transpose(1, 2).flatten(0, 1) for states in texts)  # (B · N, H, …)
    found = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, dropout_p=dropout, scale=scaling
    )
    return found.unflatten(0, (batch, count)).transpose(1, 2).flatten(2, 3)[:, :, :length]


def _listed(states: Tensor, blocks: Tensor) -> Tensor:
    """The listed blocks (B, H, N, L) of ``states`` (B, H, N, block, d) side by side: (B, H, N, L · block, d)."""
    batch, heads, count, block, size = states.shape
    rows = torch.arange(batch * heads, device=states.device).view(batch, heads, 1, 1) * count
    chosen = states.reshape(-1, block * size).index_select(0, (blocks.clamp(min=0) + rows).flatten())
    return chosen.view(batch, heads, count, -1, size)


def attend_to_rows(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, *, scaling: float, dropout: float = 0.0
) -> Tensor:
    """Heads (B, H, G, d) of a few queries (B, H, G, d) that see all allowed keys (…, G, K)."""
    weights = masked_softmax(query @ key.transpose(-1, -2) * scaling, allowed)
    return F.dropout(weights, dropout) @ value
