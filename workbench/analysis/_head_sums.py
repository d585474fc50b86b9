"""The streaming observer behind the head statistics: sums over each text, and nothing larger than that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.analysis._ratio import RatioSums
from workbench.analysis._token_classes import CLASSES
from workbench.shapes import Array
from workbench.trace import AttentionCall, AttentionObserver, Stack

__all__ = ["NAMES", "BatchOfTexts", "HeadSums", "reduce_heads", "uniform_attention"]

# What is summed for each head, in the order of the last axis of reduce_heads: name -> (unit, meaning).
NAMES: dict[str, tuple[str, str]] = {
    "entropy": ("nats", "entropy of a query's weights, 0 log 0 = 0"),
    "breadth": (
        "share",
        "entropy divided by its maximum, the log of the number of visible keys: 0 focused, 1 broad",
    ),
    "confidence": ("weight", "largest weight of a query"),
    "distance": ("tokens", "expected distance |query - key|"),
    "previous token": ("mass", "weight on the token before the query; the first query has none"),
    "next token": ("mass", "weight on the token after the query; the last query has none"),
    "same token": ("mass", "weight on the query itself"),
    "first token": ("mass", "weight on the first token, from all later queries"),
    **{name: ("mass", f"weight on {name} tokens") for name in CLASSES},
}
_TINY = 1e-30  # log of an unattended key is finite, and times its weight 0


@dataclass(frozen=True)
class BatchOfTexts:
    """What the reduction has to know of a padded batch (B texts, padded to T tokens)."""

    lengths: Tensor  # (B,)
    queries: Tensor  # (B, T), 1 for tokens, 0 for padding
    distances: Tensor  # (T, T): |query - key|
    classes: Tensor  # (B, T, C)
    log_visible: Tensor  # (B, T): queries / log(number of visible keys), 0 where that is not defined

    @classmethod
    def of(
        cls, lengths: Sequence[int], classes: Sequence[Array], causal: bool, device: torch.device
    ) -> BatchOfTexts:
        """Prepare a batch from its texts' lengths and token classes."""
        size, width = len(lengths), max(lengths)
        count = torch.tensor(lengths, device=device)
        position = torch.arange(width, device=device)
        queries = (position < count[:, None]).float()
        distance = (position[:, None] - position).abs().float()
        padded = torch.zeros(size, width, len(CLASSES), device=device)
        for row, one in enumerate(classes):
            padded[row, : len(one)] = torch.as_tensor(one, device=device)
        visible = (position + 1).expand(size, width) if causal else count[:, None].expand(size, width)
        log_visible = torch.where(visible > 1, queries / visible.clamp(min=2).log(), 0.0)
        return cls(count, queries, distance, padded, log_visible)

    def counts(self, causal: bool) -> Float[Array, "text 1 statistic"]:
        """Over how many queries each statistic of each text is averaged."""
        whole = self.lengths.double()
        later = whole - 1
        broad = later if causal else torch.where(whole > 1, whole, 0.0)
        columns = [whole, broad, whole, whole, later, later, whole, later, *[whole] * len(CLASSES)]
        return torch.stack(columns, dim=-1)[:, None].cpu().numpy()


def reduce_heads(weights: Tensor, batch: BatchOfTexts) -> Tensor:
    """Sums over the queries of each text, (B, H, statistic), of attention weights (B, H, T, T).

    A handful of matrix products over all heads at once; one temporary of the size of ``weights``.
    """
    rows = batch.queries[:, :, None]  # (B, T, 1)
    buffer = weights.clamp(min=_TINY).log_()
    entropy = buffer.mul_(weights).sum(-1).neg_()  # (B, H, T)
    # sum() adds in pairs; one long dot product in float32 would lose the fifth digit
    distance = torch.mul(weights, batch.distances, out=buffer).sum(-1)
    by_key = batch.queries[:, None, None, :] @ weights  # (B, H, 1, T): weight that each key receives
    classes = torch.bmm(by_key[:, :, 0], batch.classes)  # (B, H, C)
    diagonals = [weights.diagonal(offset, 2, 3) for offset in (-1, 1, 0)]
    previous, following, same = (
        torch.bmm(diagonals[0], rows[:, 1:]),
        torch.bmm(diagonals[1], rows[:, 1:]),  # the last query's next token would be padding
        torch.bmm(diagonals[2], rows),
    )
    first = torch.bmm(weights[:, :, 1:, 0], rows[:, 1:])
    sums = [
        torch.bmm(entropy, rows),
        torch.bmm(entropy, batch.log_visible[:, :, None]),
        torch.bmm(weights.amax(-1), rows),
        torch.bmm(distance, rows),
        previous,
        following,
        same,
        first,
    ]
    return torch.cat([*sums, classes], dim=-1)


def uniform_attention(width: int, lengths: Tensor, causal: bool) -> Tensor:
    """Attention that gives each visible key the same weight, (B, 1, T, T): the baseline of every statistic."""
    position = torch.arange(width, device=lengths.device)
    visible = (position < lengths[:, None])[:, None, None, :].expand(-1, 1, width, width)
    if causal:
        visible = visible & (position[:, None] >= position)
    weights = visible.float()
    return weights / weights.sum(-1, keepdim=True)


class HeadSums(AttentionObserver):
    """Observes one stack and adds up, for each layer, what :func:`reduce_heads` makes of every batch."""

    def __init__(self, stack: Stack, layers: int, causal: bool) -> None:
        super().__init__(stack)
        self._causal = causal
        self.sums = [RatioSums() for _ in range(layers)]
        self.uniform = RatioSums()
        self._batch: BatchOfTexts | None = None

    def begin(self, batch: BatchOfTexts) -> None:
        """Say which texts the next forward pass reads."""
        self._batch = batch
        width = batch.queries.shape[1]
        uniform = uniform_attention(width, batch.lengths, self._causal)
        self.uniform.add(reduce_heads(uniform, batch).cpu().numpy(), batch.counts(self._causal))

    def observe(self, call: AttentionCall) -> None:
        """Add one layer of the batch."""
        batch = self._batch
        assert batch is not None, "begin() comes before the pass"
        with torch.no_grad():
            sums = reduce_heads(call.weights.float(), batch)
        self.sums[call.layer].add(sums.cpu().numpy(), batch.counts(self._causal))

    @property
    def values(self) -> Float[Array, "layer head statistic"]:
        """Means over all queries so far."""
        return np.stack([sums.values for sums in self.sums])

    @property
    def standard_errors(self) -> Float[Array, "layer head statistic"]:
        """Standard errors, clustered by text."""
        return np.stack([sums.standard_errors for sums in self.sums])
