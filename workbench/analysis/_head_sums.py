"""The streaming observer behind the head statistics: sums over each text, and nothing larger than that."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.shapes import Array
from workbench.text import Alignment, split_words
from workbench.trace import AttentionCall, AttentionObserver, Stack

__all__ = [
    "CLASSES",
    "NAMES",
    "SINK",
    "BatchOfTexts",
    "HeadSums",
    "RatioSums",
    "count_words",
    "reduce_heads",
    "token_classes",
]

# Columns of token_classes, as the statistics name them.
CLASSES = ("[CLS]", "[SEP]", "punctuation", "rare words")


SINK = "sink logit"


class RatioSums:
    """Ratios of sums over texts, kept in memory that does not grow with the number of texts.

    Each text adds a total ``x`` (an array of any fixed shape) over ``n`` tokens (broadcast to it). The
    estimate is sum(x) / sum(n); its variance that of a ratio estimator over clusters (Cochran 1977,
    chapter 6, one cluster a text): T / (T - 1) * sum((x - ratio * n)^2) / sum(n)^2 for T texts.
    """

    def __init__(self) -> None:
        self.clusters = 0
        self._sums: Array | None = None  # (5, ...): x, n, x^2, x n, n^2

    def add(self, totals: Array, counts: Array) -> None:
        """Add texts: ``totals`` (text, ...) over ``counts`` tokens, broadcastable to the same shape."""
        x = np.asarray(totals, dtype=np.float64)
        n = np.broadcast_to(np.asarray(counts, dtype=np.float64), x.shape)
        new = np.stack([part.sum(0) for part in (x, n, x * x, x * n, n * n)])
        self._sums = new if self._sums is None else self._sums + new
        self.clusters += len(x)

    @property
    def values(self) -> Array:
        """sum(x) / sum(n); NaN where no token was counted."""
        x, n = self._parts()[:2]
        with np.errstate(invalid="ignore"):
            return np.divide(x, n)

    @property
    def counts(self) -> Array:
        """sum(n)."""
        return self._parts()[1]

    @property
    def standard_errors(self) -> Array:
        """Standard errors, clustered by text; NaN with fewer than two texts."""
        _, n, xx, xn, nn = self._parts()
        ratio = self.values
        if self.clusters < 2:
            return np.full_like(ratio, np.nan)
        residual = np.maximum(xx - 2 * ratio * xn + ratio**2 * nn, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(self.clusters / (self.clusters - 1) * residual) / n

    def _parts(self) -> Array:
        assert self._sums is not None, "nothing was added"
        return self._sums


# What is summed for each head, in the order of the last axis of reduce_heads: name -> (unit, meaning).
# Entropy, breadth and distance are of a distribution over tokens: weights divided by their sum, which is less than one
# where a sink logit takes part in the softmax. All others are of the weights as the model uses them.
NAMES: dict[str, tuple[str, str]] = {
    "entropy": ("nats", "entropy of a query's weights over tokens, 0 log 0 = 0"),
    "breadth": (
        "share",
        "entropy divided by its maximum, the log of the number of visible keys: 0 focused, 1 broad",
    ),
    "confidence": ("weight", "largest weight of a query"),
    "distance": ("tokens", "expected distance |query - key| over tokens"),
    "previous token": ("mass", "weight on the token before the query; the first query has none"),
    "next token": ("mass", "weight on the token after the query; the last query has none"),
    "same token": ("mass", "weight on the query itself"),
    "first token": ("mass", "weight on the first token, from all later queries"),
    **{name: ("mass", f"weight on {name} tokens") for name in CLASSES},
    SINK: ("mass", "weight on no token, which the softmax gives to a sink logit"),
}


_TINY = 1e-30  # log of an unattended key is finite, and times its weight 0


@dataclass(frozen=True)
class BatchOfTexts:
    """What the reduction has to know of a padded batch (B texts, padded to T tokens)."""

    lengths: Tensor  # (B,)
    queries: Tensor  # (B, T), 1 for tokens, 0 for padding
    distances: Tensor  # (T, T): |query - key|
    classes: Tensor  # (B, T, C)

    @classmethod
    def of(cls, lengths: Sequence[int], classes: Sequence[Array], device: torch.device) -> BatchOfTexts:
        """Prepare a batch from its texts' lengths and token classes."""
        size, width = len(lengths), max(lengths)
        count = torch.tensor(lengths, device=device)
        position = torch.arange(width, device=device)
        queries = (position < count[:, None]).float()
        distance = (position[:, None] - position).abs().float()
        padded = torch.zeros(size, width, len(CLASSES), device=device)
        for row, one in enumerate(classes):
            padded[row, : len(one)] = torch.as_tensor(one, device=device)
        return cls(count, queries, distance, padded)

    def counts(self, visible: Float[Tensor, "B T"]) -> Float[Array, "text 1 statistic"]:
        """Over how many queries each statistic of each text is averaged; ``visible`` keys of each query."""
        whole = self.lengths.double()
        later = whole - 1
        broad = (self.queries * (visible > 1)).sum(-1).double()
        columns = [whole, broad, whole, whole, later, later, whole, later, *[whole] * (len(CLASSES) + 1)]
        return torch.stack(columns, dim=-1)[:, None].cpu().numpy()


def reduce_heads(weights: Tensor, batch: BatchOfTexts, visible: Float[Tensor, "B T"]) -> Tensor:
    """Sums over the queries of each text, (B, H, statistic), of attention weights (B, H, T, T).

    ``visible`` is the number of keys that each query may attend to. A handful of matrix products over all heads at
    once; one temporary of the size of ``weights``.
    """
    rows = batch.queries[:, :, None]  # (B, T, 1)
    mass = weights.sum(-1).clamp(
        min=_TINY
    )  # (B, H, T); p = w / mass, -sum p log p = -sum w log w / mass + log mass
    buffer = weights.clamp(min=_TINY).log_()
    entropy = buffer.mul_(weights).sum(-1).neg_().div_(mass).add_(mass.log())
    # sum() adds in pairs; one long dot product in float32 would lose the fifth digit
    distance = torch.mul(weights, batch.distances, out=buffer).sum(-1).div_(mass)
    log_visible = torch.where(visible > 1, batch.queries / visible.clamp(min=2).log(), 0.0)
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
        torch.bmm(entropy, log_visible[:, :, None]),
        torch.bmm(weights.amax(-1), rows),
        torch.bmm(distance, rows),
        previous,
        following,
        same,
        first,
    ]
    return torch.cat([*sums, classes, torch.bmm(1 - mass, rows)], dim=-1)


@dataclass(frozen=True)
class _Uniform:
    """Attention that gives each visible key the same weight: the baseline of every statistic."""

    visible: Tensor  # (B, 1, T, T)
    number: Tensor  # (B, T) of visible keys
    sums: Array  # (B, 1, statistic)
    counts: Array

    @classmethod
    def of(cls, visible: Tensor, batch: BatchOfTexts) -> _Uniform:
        """Its statistics of one batch, whose queries may attend to ``visible`` (B, 1, T, T)."""
        weights = visible.float()
        number = weights.sum(-1)
        sums = reduce_heads(weights / number.clamp(min=1)[..., None], batch, number[:, 0])
        return cls(visible, number[:, 0], sums.cpu().numpy(), batch.counts(number[:, 0]))


class HeadSums(AttentionObserver):
    """Observes one stack and adds up, for each layer, what :func:`reduce_heads` makes of every batch.

    Keys that a query may attend to are those of the layer's own mask, so that layers may have windows of their own.
    """

    def __init__(self, stack: Stack, layers: int) -> None:
        super().__init__(stack)
        self.sums = [RatioSums() for _ in range(layers)]
        self.uniform = [RatioSums() for _ in range(layers)]
        self._batch: BatchOfTexts | None = None
        self._seen: list[_Uniform] = []  # one for each kind of mask in the batch

    def begin(self, batch: BatchOfTexts) -> None:
        """Say which texts the next forward pass reads."""
        self._batch, self._seen = batch, []

    def observe(self, call: AttentionCall) -> None:
        """Add one layer of the batch."""
        batch = self._batch
        assert batch is not None, "begin() comes before the pass"
        with torch.no_grad():
            uniform = self._uniform(call.visible(), batch)
            sums = reduce_heads(call.weights.float(), batch, uniform.number)
        self.sums[call.layer].add(sums.cpu().numpy(), uniform.counts)
        self.uniform[call.layer].add(uniform.sums, uniform.counts)

    def _uniform(self, visible: Tensor, batch: BatchOfTexts) -> _Uniform:
        for known in self._seen:
            if torch.equal(known.visible, visible):
                return known
        self._seen.append(_Uniform.of(visible, batch))
        return self._seen[-1]

    @property
    def uniform_values(self) -> Float[Array, "layer statistic"]:
        """What attention to all visible keys alike gives in each layer."""
        return np.stack([sums.values[0] for sums in self.uniform])

    @property
    def values(self) -> Float[Array, "layer head statistic"]:
        """Means over all queries so far."""
        return np.stack([sums.values for sums in self.sums])

    @property
    def standard_errors(self) -> Float[Array, "layer head statistic"]:
        """Standard errors, clustered by text."""
        return np.stack([sums.standard_errors for sums in self.sums])


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs, ignoring case; punctuation marks are words of their own."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text[start:end].lower() for start, end in split_words(text, punctuation=True))
    return counts


def token_classes(
    alignment: Alignment, tokenizer: Any, counts: Counter[str], rare_count: int
) -> Float[Array, "token class"]:
    """1 where a token belongs to the class, else 0; the columns are :data:`CLASSES`.

    [CLS] and [SEP] are whatever the tokenizer calls its cls and sep tokens. A rare word occurs at most
    ``rare_count`` times in ``counts``; punctuation and special tokens are never rare.
    """
    classes = np.zeros((len(alignment), len(CLASSES)), dtype=np.float32)
    ids = np.array(alignment.ids)
    for column, special in enumerate((tokenizer.cls_token_id, tokenizer.sep_token_id)):
        if special is not None:
            classes[:, column] = ids == special
    for token, word in enumerate(alignment.word_ids):
        if word is None:
            continue
        if is_punctuation(alignment.piece(token)):
            classes[token, 2] = 1
        elif counts[strip_punctuation(alignment.word(word)).lower()] <= rare_count:
            classes[token, 3] = 1
    return classes


@lru_cache(maxsize=8192)
def is_punctuation(piece: str) -> bool:
    """Whether a piece of text is nothing but punctuation marks and symbols (Unicode categories P and S)."""
    return bool(piece) and all(unicodedata.category(char)[0] in "PS" for char in piece)


@lru_cache(maxsize=8192)
def strip_punctuation(word: str) -> str:
    """The longest run without punctuation: ``"(well-known),"`` counts as ``"known"``."""
    runs = [word[start:end] for start, end in split_words(word, punctuation=True)]
    return max(runs, key=lambda run: (not is_punctuation(run), len(run)), default=word)
