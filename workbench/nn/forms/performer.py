"""Performer: softmax attention estimated with random features, at a cost linear in the length."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from workbench.nn.attention_functions import EffectiveMap
from workbench.nn.forms.base import EfficientAttention, Layout

__all__ = ["PerformerAttention", "orthogonal_features"]

_CHUNK = 64  # tokens whose causal weights among one another are held at a time
_LARGEST = 60.0  # exponent beyond which a key's feature is cut off, so that sums stay finite in float32
_NOTHING = -1e30  # log feature of padding


def orthogonal_features(count: int, size: int, seed: int) -> Tensor:
    """Directions (count, size), orthogonal within each block of ``size`` rows, with the lengths of normal vectors.

    Each row alone is distributed as a standard normal vector. Choromanski et al. 2021, section 2.4 and appendix B.2.
    The same seed gives the same rows on every machine with the same linear algebra.
    """
    generator = torch.Generator().manual_seed(seed)
    blocks = -(-count // size)
    drawn = torch.randn(2, blocks, size, size, dtype=torch.float64, device="cpu", generator=generator)
    turned, triangle = torch.linalg.qr(drawn[0])
    signs = triangle.diagonal(dim1=-2, dim2=-1).sign()  # makes the rotation uniform (Mezzadri 2007)
    rows = (turned * signs[:, None, :]).transpose(-1, -2) * drawn[1].norm(dim=-1)[..., None]
    return rows.flatten(0, 1)[:count].float()


class PerformerAttention(EfficientAttention):
    """FAVOR+; Choromanski et al. 2021, "Rethinking Attention with Performers", lemma 1 and algorithm 1.

    exp(q · k / √d) is the expectation of φ(q) · φ(k) with φ(x) = exp(w · x - |x|² / 2) / √m, x scaled by d^(-1/4), over
    m random directions w, the same for all heads. Its error falls as 1/√m. Rows are φ(q) Φ(K)ᵀ divided by their sum:
    positive, and they sum to one. Each feature of the keys is divided by its largest value, which cancels; no constant
    is added, since the sum of a row is then 1 at least. In the causal form the largest value is taken over keys that
    all queries of a chunk see. There is no map to drop weights from: ``dropout`` acts only where the map is built.
    """

    can_be_causal: ClassVar[bool] = True
    directions: Tensor

    def __init__(self, *, features: int, seed: int, **attention: Any) -> None:
        super().__init__(**attention)
        drawn = orthogonal_features(features, self.head_size, seed + self.layer_idx)
        self.register_buffer("directions", drawn)  # saved with the weights: a run does not depend on the draw

    def mean_keys(self, length: int) -> float:
        """Features of queries and keys, sums of values by feature, and their products with queries: 4 m d each."""
        return 2.0 * len(self.directions) + (_CHUNK / 2 if self.is_causal else 0)

    def _log_features(self, states: Tensor) -> Tensor:
        """Logarithms of the features of queries or keys (B, H, T, d), without 1/√m: (B, H, T, m), float32 at least."""
        states = states.to(torch.promote_types(states.dtype, torch.float32)) * self.scaling**0.5
        directions = self.directions.to(states.dtype)
        return states @ directions.T - states.square().sum(-1, keepdim=True) / 2

    def _logs(self, query: Tensor, key: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Log features of queries and of keys, those of padding far below all others."""
        padding = ~layout.tokens(key.shape[2])[:, None, :, None]
        return self._log_features(query), self._log_features(key).masked_fill(padding, _NOTHING)

    def efficient(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """Values are added up feature by feature; never more than a chunk's map is held."""
        queries, keys = self._logs(query, key, layout)
        wide = _with_ones(value.to(queries.dtype))
        if self.is_causal:
            mixed = _prefix_sums(queries, keys, wide)
        else:
            largest = keys.detach().amax(-2, keepdim=True)
            mixed = _query_features(queries, largest) @ (
                _key_features(keys, largest).transpose(-1, -2) @ wide
            )
        return (mixed[..., :-1] / mixed[..., -1:]).to(value.dtype).transpose(1, 2)

    def effective_map(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, layout: Layout
    ) -> tuple[EffectiveMap, Tensor]:
        """φ(q) Φ(K)ᵀ, row by row divided by its sum."""
        queries, keys = self._logs(query, key, layout)
        visible = layout.visible(key.shape[2], is_causal=self.is_causal)
        chunk = _CHUNK if self.is_causal else query.shape[2]
        rows = []
        for log_query, seen in zip(queries.split(chunk, 2), visible.split(chunk, 2), strict=True):
            by_all = seen[:, :, :1].transpose(-1, -2)  # (B, 1, K, 1): keys that every query of the chunk sees
            largest = keys.detach().masked_fill(~by_all, _NOTHING).amax(-2, keepdim=True)
            products = _query_features(log_query, largest) @ _key_features(keys, largest).transpose(-1, -2)
            rows.append(products.masked_fill(~seen, 0.0))
        weights = torch.cat(rows, 2)
        return EffectiveMap((weights / weights.sum(-1, keepdim=True)).to(value.dtype)), visible


def _with_ones(value: Tensor) -> Tensor:
    """Values (B, H, K, d) with a column of ones, whose weighted sum is the sum of the weights."""
    return torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)


def _query_features(logs: Tensor, largest: Tensor) -> Tensor:
    """exp(logs + largest), each row divided by its largest entry; keys were divided by ``largest``."""
    logs = logs + largest
    return (logs - logs.detach().amax(-1, keepdim=True)).exp()


def _key_features(logs: Tensor, largest: Tensor) -> Tensor:
    """exp(logs - largest), cut off where a key that came later is too large for the number format."""
    return (logs - largest).clamp(max=_LARGEST).exp()


def _prefix_sums(queries: Tensor, keys: Tensor, wide: Tensor) -> Tensor:
    """φ(q_i) Σ_{j ≤ i} φ(k_j) v_jᵀ for each i: (B, H, T, d), chunk by chunk (appendix B.1 of the paper).

    Each chunk mixes its own keys by a small map, and all earlier ones by their sum, which is all that is carried on.
    """
    chunks = list(zip(*(states.split(_CHUNK, 2) for states in (queries, keys, wide)), strict=True))
    largest = keys.detach()[:, :, :1]  # (B, H, 1, m): of each feature, over what all queries of a chunk see
    total = wide.new_zeros(*keys.shape[:2], keys.shape[3], wide.shape[3])
    mixed = []
    for index, (log_query, log_key, values) in enumerate(chunks):
        query = _query_features(log_query, largest)
        inside = (query @ _key_features(log_key, largest).transpose(-1, -2)).tril()
        mixed.append(query @ total + inside @ values)
        if index + 1 < len(chunks):
            first = chunks[index + 1][1].detach()[:, :, :1]
            seen = torch.cat([largest, log_key.detach(), first], 2).amax(2, keepdim=True)
            kept = (largest - seen).exp().transpose(-1, -2) * total
            total = kept + _key_features(log_key, seen).transpose(-1, -2) @ values
            largest = seen
    return torch.cat(mixed, 2)
