"""Integrated gradients whose memory does not grow with the number of steps.

Points on the paths of many texts share forward passes of bounded size, and of each gradient only its
product with the path's direction is kept: (T,) numbers a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.saliency._methods import METHODS, Options, Raw, SaliencyMethod
from workbench.analysis.saliency._seam import Seam
from workbench.shapes import Array

__all__ = ["clenshaw_curtis", "integrated"]

FIRST_STEPS = 8
SMALLEST = 0.1  # difference in the target's value below which the tolerance is no longer relative


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
    """What is known of one text's path: at each point the target's value, and gradient × direction."""

    values: dict[float, float] = field(default_factory=dict)
    products: dict[float, Array] = field(default_factory=dict)

    def scores(self, points: Array, weights: Array) -> Array:
        """The integral by a rule: (T,)."""
        result: Array = weights @ np.stack([self.products[_key(p)] for p in points])
        return result


def integrated(seam: Seam, embeddings: Tensor, options: Options) -> Raw:
    """Integrated gradients from the seam's baseline to ``embeddings`` (Sundararajan et al. 2017, equation 1).

    With ``options.steps`` exactly so many Gauss-Legendre points; else nested Clenshaw-Curtis rules, doubled for
    each text until the completeness error is within ``options.tolerance`` or ``most_steps`` are reached.
    """
    paths = [_Path() for _ in range(len(seam))]
    scores = torch.zeros_like(embeddings[..., 0])
    if options.steps is not None:
        nodes, weights = np.polynomial.legendre.leggauss(options.steps)
        points, weights = (nodes + 1) / 2, weights / 2
        _visit(seam, embeddings, paths, {row: points for row in range(len(seam))}, options)
        steps = [options.steps] * len(seam)
        found = {row: path.scores(points, weights) for row, path in enumerate(paths)}
    else:
        found, steps = _until_complete(seam, embeddings, paths, options)
    for row, values in found.items():
        scores[row, : len(values)] = torch.as_tensor(values).to(scores)
    return Raw(scores, tuple(steps))


def _until_complete(
    seam: Seam, embeddings: Tensor, paths: Sequence[_Path], options: Options
) -> tuple[dict[int, Array], list[int]]:
    found: dict[int, Array] = {}
    steps = [0] * len(seam)
    open_rows = list(range(len(seam)))
    intervals = FIRST_STEPS
    while open_rows:
        points, weights = clenshaw_curtis(intervals)
        _visit(seam, embeddings, paths, {row: points for row in open_rows}, options)
        unfinished = []
        for row in open_rows:
            found[row], steps[row] = paths[row].scores(points, weights), len(points)
            difference = paths[row].values[_key(1.0)] - paths[row].values[_key(0.0)]
            error = abs(float(found[row].sum()) - difference)
            if error > options.tolerance * max(abs(difference), SMALLEST):
                unfinished.append(row)
        open_rows = unfinished if 2 * intervals <= options.most_steps else []
        intervals *= 2
    return found, steps


def _visit(
    seam: Seam, embeddings: Tensor, paths: Sequence[_Path], wanted: dict[int, Array], options: Options
) -> None:
    """Take gradients at the points that are new, points of several texts in one pass."""
    pairs = [
        (row, float(point))
        for row, points in wanted.items()
        for point in points
        if _key(point) not in paths[row].products
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
            paths[row].values[_key(pairs[i][1])] = value
            paths[row].products[_key(pairs[i][1])] = product[: seam.lengths[row]]


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
        complete=True,
        uses_baseline=True,
    ),
)
