"""The structural probe: syntax trees as distances in a linear projection (Hewitt & Manning 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from torch import Tensor

from workbench.errors import ConfigError, TaskError
from workbench.shapes import Array

__all__ = ["StructuralProbe", "spearman_by_length", "tree_depths", "tree_distances", "uuas"]

TARGETS = ("distance", "depth")


def tree_distances(heads: Sequence[int | None]) -> Array:
    """Number of arcs between each two words (W, W); ``heads`` as positions from 0, ``None`` for the root."""
    size = len(heads)
    arcs = np.zeros((size, size))
    for word, head in enumerate(heads):
        if head is not None:
            arcs[word, head] = 1
    found: Array = shortest_path(arcs, directed=False, unweighted=True)
    return found


def tree_depths(heads: Sequence[int | None]) -> Array:
    """Number of arcs from each word to the root (W,)."""
    root = next(w for w, head in enumerate(heads) if head is None)
    found: Array = tree_distances(heads)[root]
    return found


class StructuralProbe(BaseEstimator):
    """A projection B of rank ``rank`` with |B (h_i - h_j)|^2 near the distance of words i and j in the tree.

    With ``target="depth"``, |B h_i|^2 is near the depth of word i. The loss is theirs: L1, each sentence divided by its
    number of pairs (words). Unlike theirs, the vectors are first centred, which moves the origin of depths, and divided
    by one number; the learning rate falls along a cosine. ``fit`` takes a matrix (W, D) and a target (W, W) or (W,) for
    each sentence and sets ``projection_`` (rank, D).
    """

    def __init__(
        self,
        target: str = "distance",
        rank: int = 64,
        epochs: int = 20,
        learning_rate: float = 2e-3,
        seed: int = 0,
    ) -> None:
        self.target = target
        self.rank = rank
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.seed = seed

    def fit(self, X: Sequence[Array], y: Sequence[Array]) -> StructuralProbe:
        """Fit with Adam; raises :class:`~workbench.errors.TaskError` without a sentence of two words."""
        if self.target not in TARGETS:
            raise ConfigError(f"target is {self.target!r}; allowed: {', '.join(TARGETS)}")
        kept = [i for i, matrix in enumerate(X) if len(matrix) > 1]
        if not kept:
            raise TaskError("a structural probe needs sentences of at least two words")
        every = np.concatenate([X[i] for i in kept])
        self.mean_, self.scale_ = every.mean(0), float(every.std() + 1e-6)
        width, draw = X[kept[0]].shape[1], np.random.default_rng(self.seed)
        start = draw.uniform(-0.5, 0.5, (min(self.rank, width), width)) / np.sqrt(width) * 2
        projection = torch.tensor(start, dtype=torch.float32, requires_grad=True)
        optimiser = torch.optim.Adam([projection], lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.epochs)
        batches = list(_batches([X[i] for i in kept], [y[i] for i in kept], self.mean_, self.scale_))
        for _ in range(self.epochs):
            for number in draw.permutation(len(batches)):
                vectors, wanted, mask = batches[number]
                optimiser.zero_grad()
                self._loss(projection, vectors, wanted, mask).backward()
                optimiser.step()
            schedule.step()
        self.projection_: Array = projection.detach().numpy()
        return self

    def _loss(self, projection: Tensor, vectors: Tensor, wanted: Tensor, mask: Tensor) -> Tensor:
        gaps = (self._predicted(projection, vectors) - wanted).abs() * mask
        axes = tuple(range(1, gaps.ndim))
        return (gaps.sum(axes) / mask.sum(axes)).mean()

    def _predicted(self, projection: Tensor, vectors: Tensor) -> Tensor:
        projected = vectors @ projection.T  # (B, W, rank)
        squares = projected.square().sum(-1)
        if self.target == "depth":
            return squares
        return (squares[:, :, None] + squares[:, None] - 2 * projected @ projected.transpose(1, 2)).clamp_min(
            0
        )

    def predict(self, X: Sequence[Array]) -> list[Array]:
        """Distances (W, W) or depths (W,) of each sentence's words."""
        projection = torch.from_numpy(self.projection_)
        with torch.no_grad():
            return [
                self._predicted(projection, _tensor(matrix, self.mean_, self.scale_)[None])[0].numpy()
                for matrix in X
            ]

    def score(self, X: Sequence[Array], y: Sequence[Array]) -> float:
        """Mean Spearman correlation with the tree, by sentence length, then over lengths 5 to 50."""
        values = [_spearman(p, t) for p, t in zip(self.predict(X), y, strict=True)]
        return spearman_by_length(values, [len(matrix) for matrix in X])


def uuas(distances: Array, heads: Sequence[int | None], words: Sequence[int]) -> tuple[int, int]:
    """Arcs of the minimum spanning tree over ``words`` that are arcs of the tree, and how many there could be.

    The unlabelled undirected attachment score is their ratio; ``words`` leaves out punctuation.
    """
    chosen = list(words)
    # the spanning tree treats 0 as "no arc", so equal vectors get a tiny distance
    span = minimum_spanning_tree(np.maximum(distances[np.ix_(chosen, chosen)], 1e-9)).nonzero()
    found = {frozenset((chosen[i], chosen[j])) for i, j in zip(*span, strict=True)}
    gold = {frozenset((w, h)) for w in chosen if (h := heads[w]) is not None and h in chosen}
    return len(found & gold), len(gold)


def spearman_by_length(values: Sequence[float], lengths: Sequence[int]) -> float:
    """Mean of the means at each sentence length from 5 to 50, as they report it; of all where none is."""
    groups: dict[int, list[float]] = {}
    for value, length in zip(values, lengths, strict=True):
        if 5 <= length <= 50 and np.isfinite(value):
            groups.setdefault(length, []).append(value)
    found = [float(np.mean(group)) for group in groups.values()] or [v for v in values if np.isfinite(v)]
    return float(np.mean(found)) if found else float("nan")


def _spearman(predicted: Array, wanted: Array) -> float:
    """Mean over rows of the rank correlation; of one row for depths."""
    rows = zip(np.atleast_2d(predicted), np.atleast_2d(wanted), strict=True)
    found = []
    for a, b in rows:
        x, y = rankdata(a), rankdata(b)
        if x.std() > 0 and y.std() > 0:
            found.append(float(np.corrcoef(x, y)[0, 1]))
    return float(np.mean(found)) if found else float("nan")


def _tensor(matrix: Array, mean: Array, scale: float) -> Tensor:
    return torch.from_numpy(np.asarray((matrix - mean) / scale, dtype=np.float32))


def _batches(
    matrices: Sequence[Array], targets: Sequence[Array], mean: Array, scale: float, size: int = 32
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Padded vectors, targets and mask of sentences of like length."""
    order = sorted(range(len(matrices)), key=lambda i: len(matrices[i]))
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        longest = max(len(matrices[i]) for i in rows)
        shape = (len(rows), *(longest,) * targets[rows[0]].ndim)
        vectors = torch.zeros(len(rows), longest, matrices[rows[0]].shape[1])
        wanted, mask = torch.zeros(shape), torch.zeros(shape)
        for k, i in enumerate(rows):
            inside: tuple[int | slice, ...] = (k, *(slice(len(matrices[i])),) * targets[i].ndim)
            vectors[k, : len(matrices[i])] = _tensor(matrices[i], mean, scale)
            wanted[inside] = torch.from_numpy(np.asarray(targets[i], dtype=np.float32))
            mask[inside] = 1
        yield vectors, wanted, mask
