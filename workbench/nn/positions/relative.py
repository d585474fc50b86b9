"""T5's relative positions: a learned number for each head and bucket of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from workbench.nn.positions.base import PositionEncoding

__all__ = ["RelativeBuckets", "bucket_of_distance"]


def bucket_of_distance(distance: Tensor, *, buckets: int, max_distance: int, two_sided: bool) -> Tensor:
    """The bucket of each ``distance`` (key position minus query position), of any shape.

    Raffel et al. 2020, "T5", section 2.1. Half of the buckets hold one distance each, the other half ranges
    that grow logarithmically up to ``max_distance``; farther distances share the last. Two-sided, the upper
    half of all buckets is for keys after the query; one-sided, such keys fall in bucket 0.
    """
    if two_sided:
        buckets //= 2
        first = (distance > 0) * buckets
        distance = distance.abs()
    else:
        first = torch.zeros_like(distance)
        distance = -distance.clamp(max=0)
    exact = buckets // 2
    ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    logarithmic = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return first + torch.where(distance < exact, distance, logarithmic)


class RelativeBuckets(PositionEncoding):
    """One table of biases, shared by all layers of a stack."""

    def __init__(self, *, heads: int, buckets: int = 32, max_distance: int = 128, two_sided: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.max_distance = max_distance
        self.two_sided = two_sided

    def bias_scores(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """Positions (Q,) and (K,) to biases (1, H, Q, K)."""
        distance = key_positions[None, :] - query_positions[:, None]
        buckets, reach = self.table.num_embeddings, self.max_distance
        bucket = bucket_of_distance(distance, buckets=buckets, max_distance=reach, two_sided=self.two_sided)
        return self.table(bucket).permute(2, 0, 1)[None]
