"""Integrated gradients whose memory does not grow with the number of steps.

Points on the paths of many texts share forward passes of bounded size, and of each gradient only its
product with the path's direction is kept: (T,) numbers a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.saliency._methods import METHODS, Options, Raw, SaliencyMethod
from workbench.analysis.saliency._seam import Seam
from workbench.shapes import Array

__all__ = ["clenshaw_curtis", "integrated"]

ORDER = 8  # intervals between the points of one rule
HIGHEST = 64  # up to which a rule is raised before its path is cut in pieces
SMALLEST = 0.1  # difference in the target's value below which the tolerance is no longer relative


@cache
def clenshaw_curtis(intervals: int) -> tuple[Array, Array]:
    """Points in [0, 1] and weights of Clenshaw & Curtis (1960); the points of n are among those of 2 n."""
    angles = np.pi * np.arange(intervals + 1) / intervals
    k = np.arange(1, intervals // 2 + 1)
    factors = np.where(2 * k == intervals, 1.0, 2.0) / (4 * k**2 - 1)
    weights = 1 - (factors * np.cos(2 * np.outer(angles, k))).sum(1)
    weights *= 2 / intervals
    weights[[0, -1]] /= 2
    return (1 - np.cos(angles)) / 2, weights / 2


@dataclass
class _Path:
    """What is known of one text's path: at each point the target's value, and gradient × direction.

    ``pieces`` are stretches (start, end, order of the rule) that together are the whole path.
    """

    pieces: list[tuple[float, float, int]] = field(default_factory=lambda: [(0.0, 1.0, ORDER)])
    values: dict[float, float] = field(default_factory=dict)
    products: dict[float, Array] = field(default_factory=dict)

    def integral(self, points: Array, weights: Array) -> Array:
        """By any rule whose points were visited: (T,)."""
        result: Array = weights @ np.stack([self.products[_key(point)] for point in points])
        return result

    def of_piece(self, piece: tuple[float, float, int]) -> tuple[Array, float]:
        """A stretch's scores (T,), and its own completeness error: values at its ends are known."""
        points, weights = _rule(*piece)
        scores = self.integral(points, weights)
        return scores, float(scores.sum()) - (self.values[_key(piece[1])] - self.values[_key(piece[0])])

    def refine(self, errors: Sequence[float], allowed: float) -> None:
        """Double the rule's order, then halve the stretches whose errors together exceed ``allowed``.

        A path is smooth as a rule, so one rule of high order needs fewer points than many of low order.
        """
        if len(self.pieces) == 1 and self.pieces[0][2] < HIGHEST:
            self.pieces = [(0.0, 1.0, 2 * self.pieces[0][2])]
            return
        total, kept = 0.0, set()
        for i in sorted(range(len(errors)), key=lambda i: abs(errors[i])):
            total += abs(errors[i])
            if total <= allowed / 2:
                kept.add(i)
        halved = [
            half
            for i, (start, end, order) in enumerate(self.pieces)
            for middle in ((start + end) / 2,)
            for half in (
                [(start, end, order)] if i in kept else [(start, middle, ORDER), (middle, end, ORDER)]
            )
        ]
        self.pieces = halved


def integrated(seam: Seam, embeddings: Tensor, options: Options) -> Raw:
    """Integrated gradients from the seam's baseline to ``embeddings`` (Sundararajan et al. 2017, equation 1).

    With ``options.steps`` exactly so many Gauss-Legendre points. Else points are added to each text's path where
    it is rough, until the completeness error is within ``options.tolerance`` or ``most_steps`` are reached:
    between any two points the scores must sum to the change of the target's value, which shows where.
    """
    paths = [_Path() for _ in range(len(seam))]
    scores = torch.zeros_like(embeddings[..., 0])
    if options.steps is not None:
        nodes, weights = np.polynomial.legendre.leggauss(options.steps)
        points, weights = (nodes + 1) / 2, weights / 2
        _visit(seam, embeddings, paths, dict.fromkeys(range(len(seam)), points), options)
        found = {row: path.integral(points, weights) for row, path in enumerate(paths)}
    else:
        found = _until_complete(seam, embeddings, paths, options)
    for row, values in found.items():
        scores[row, : len(values)] = torch.as_tensor(values).to(scores)
    return Raw(scores, tuple(len(path.products) for path in paths))


def _until_complete(
    seam: Seam, embeddings: Tensor, paths: Sequence[_Path], options: Options
) -> dict[int, Array]:
    found: dict[int, Array] = {}
    open_rows = list(range(len(seam)))
    while open_rows:
        wanted = {row: np.concatenate([_rule(*piece)[0] for piece in paths[row].pieces]) for row in open_rows}
        _visit(seam, embeddings, paths, wanted, options)
        unfinished = []
        for row in open_rows:
            path = paths[row]
            results = [path.of_piece(piece) for piece in path.pieces]
            found[row] = np.sum([scores for scores, _ in results], axis=0)
            errors = [error for _, error in results]
            allowed = options.tolerance * max(abs(path.values[1.0] - path.values[0.0]), SMALLEST)
            if sum(map(abs, errors)) > allowed and len(path.products) < options.most_steps:
                path.refine(errors, allowed)
                unfinished.append(row)
        open_rows = unfinished
    return found


def _rule(start: float, end: float, order: int) -> tuple[Array, Array]:
    points, weights = clenshaw_curtis(order)
    return start + (end - start) * points, (end - start) * weights


def _visit(
    seam: Seam, embeddings: Tensor, paths: Sequence[_Path], wanted: dict[int, Array], options: Options
) -> None:
    """Take gradients at the points that are new, points of several texts in one pass."""
    pairs = [
        (row, point)
        for row, points in wanted.items()
        for point in dict.fromkeys(map(_key, points))
        if point not in paths[row].products
    ]
    direction = embeddings - seam.baseline
    for chosen in seam.chunks([row for row, _ in pairs], options.batch_tokens):
        rows = [pairs[i][0] for i in chosen]
        width = max(seam.lengths[row] for row in rows)
        share = torch.tensor([pairs[i][1] for i in chosen]).to(embeddings)[:, None, None]
        part = direction[rows, :width]
        values, gradients = seam.gradients(seam.baseline[rows, :width] + share * part, torch.tensor(rows))
        products = (gradients * part).sum(-1).double().cpu().numpy()
        for i, row, product, value in zip(chosen, rows, products, values.tolist(), strict=True):
            paths[row].values[pairs[i][1]] = value
            paths[row].products[pairs[i][1]] = product[: seam.lengths[row]]


def _key(point: float) -> float:
    """Points of nested rules agree up to rounding."""
    return round(float(point), 12)


METHODS.register(
    "integrated_gradients",
    SaliencyMethod(
        name="integrated_gradients",
        compute=lambda seam, options: integrated(seam, seam.embeddings, options),
        convention="share of the difference from the baseline: positive speaks for the target",
        source="Sundararajan et al. 2017, equation 1",
        passes=lambda tokens, options: 3 * (options.steps or 33),
        additive=True,
        complete=True,
        uses_baseline=True,
    ),
)
