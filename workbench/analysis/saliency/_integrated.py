"""Integrated gradients whose memory does not grow with the number of steps.

Points on the paths of many texts share forward passes of bounded size, and of each gradient only its
product with the path's direction is kept: (T,) numbers a point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.saliency._methods import METHODS, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency.embedding_model import EmbeddingModel
from workbench.shapes import Array

__all__ = ["clenshaw_curtis", "integrated"]

ORDER = 10  # intervals of the rule for a piece of a path
HIGHEST = 60  # intervals of the rule for a whole path from which on it is cut rather than doubled
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


# Found by trying (:func:`_by_angle`); `benchmarks/saliency.py --only points` shows the errors that they leave.
# On plainly trained models even points cost 1.2 to 2.2 times as many passes (docs/benchmarks.md).
_EARLIER, _SHARPER, _SHARPEST = 0.5, 0.7, 0.2
_Pace = Callable[[Array], tuple[Array, Array]]  # shares of the way at times in [0, 1], and their derivatives


def _evenly(times: Array) -> tuple[Array, Array]:
    return times, np.ones_like(times)


def _by_angle(start: Tensor, end: Tensor) -> _Pace:
    """A pace that is slow where the path from ``start`` to ``end`` (T, D) bends, so that a rule needs fewer points.

    A straight line seen from the origin, as norms see it, turns fastest where it passes the origin. At
    share = nearest + distance * tan(angle) it turns evenly, and what a model makes of it changes more
    evenly than along the line. Both numbers are medians over the tokens. The target's value bends earlier and
    more sharply than they say; by how much was tried on minilm-l6 (pad, mask), planted-sentiment-encoder and
    novels-decoder. :func:`_less_at_ends` then takes points from the ends.
    """
    start, line = start.double(), (end - start).double()
    length = line.square().sum(-1)
    start, line, length = start[length > 0], line[length > 0], length[length > 0]
    if not len(length):
        return _evenly
    shares = -(start * line).sum(-1) / length
    distances = (start + shares[:, None] * line).norm(dim=-1) / length.sqrt()
    nearest = _EARLIER * float(shares.median())
    distance = max(_SHARPER * float(distances.median()), _SHARPEST)
    first, last = np.arctan(-nearest / distance), np.arctan((1 - nearest) / distance)

    def pace(times: Array) -> tuple[Array, Array]:
        times, speeds = _less_at_ends(times)
        angles = first + (last - first) * times
        shares = np.clip(nearest + distance * np.tan(angles), 0.0, 1.0)
        return shares, speeds * (last - first) * distance / np.cos(angles) ** 2

    return pace


_ARCSINE = np.array([1, 1 / 6, 3 / 40, 5 / 112])  # of odd powers


def _less_at_ends(times: Array) -> tuple[Array, Array]:
    """Times in [0, 1] moved towards the middle, where rules have fewer points than they need, and derivatives.

    A polynomial map of Hale & Trefethen 2008, "New quadrature formulas from conformal maps": the first terms of
    the arcsine's series, scaled to end where it began.
    """
    odd = 2 * np.arange(len(_ARCSINE)) + 1
    weights, centred = _ARCSINE / _ARCSINE.sum(), 2 * times[..., None] - 1
    return (1 + (weights * centred**odd).sum(-1)) / 2, (weights * odd * centred ** (odd - 1)).sum(-1)


@dataclass
class _Path:
    """What is known of one text's path: at each time the target's value, and gradient × velocity.

    ``pieces`` are stretches (start, end, order of the rule) that together are the whole path.
    """

    pace: _Pace
    pieces: list[tuple[float, float, int]] = field(default_factory=list)
    values: dict[float, float] = field(default_factory=dict)
    products: dict[float, Array] = field(default_factory=dict)

    def integral(self, times: Array, weights: Array) -> Array:
        """By any rule whose points were visited: (T,)."""
        result: Array = weights @ np.stack([self.products[_key(time)] for time in times])
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


def integrated(embedded: EmbeddingModel, embeddings: Tensor, options: SaliencyOptions) -> Raw:
    """Integrated gradients from the texts' baseline to ``embeddings`` (Sundararajan et al. 2017, equation 1).

    With ``options.steps`` exactly so many Gauss-Legendre points. Else points are added to each text's path where
    it is rough, until the completeness error is within ``options.tolerance`` or ``most_steps`` are reached:
    between any two points the scores must sum to the change of the target's value, which shows where.
    """
    scores = torch.zeros_like(embeddings[..., 0])
    if options.steps is not None:
        nodes, weights = np.polynomial.legendre.leggauss(options.steps)
        points, weights = (nodes + 1) / 2, weights / 2
        paths = [_Path(_evenly) for _ in range(len(embedded))]
        _visit(embedded, embeddings, paths, dict.fromkeys(range(len(embedded)), points), options)
        found = {row: path.integral(points, weights) for row, path in enumerate(paths)}
    else:
        whole = (0.0, 1.0, _first_order(options.tolerance))
        ends = zip(embedded.baseline, embeddings, strict=True)
        paths = [_Path(_by_angle(start, end), [whole]) for start, end in ends]
        found = _until_complete(embedded, embeddings, paths, options)
    for row, values in found.items():
        scores[row, : len(values)] = torch.as_tensor(values).to(scores)
    known = None if options.steps else tuple((path.values[0.0], path.values[1.0]) for path in paths)
    return Raw(scores, tuple(len(path.products) for path in paths), ends=known)


def _until_complete(
    embedded: EmbeddingModel, embeddings: Tensor, paths: Sequence[_Path], options: SaliencyOptions
) -> dict[int, Array]:
    found: dict[int, Array] = {}
    open_rows = list(range(len(embedded)))
    while open_rows:
        wanted = {row: np.concatenate([_rule(*piece)[0] for piece in paths[row].pieces]) for row in open_rows}
        _visit(embedded, embeddings, paths, wanted, options)
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


def _first_order(tolerance: float) -> int:
    """Intervals with which nearly all texts are within the tolerance: ten for each digit, and a few more.

    With fewer, some are by luck: their errors cancel in the sum and not in the scores.
    """
    return max(18, math.ceil(4 - 10 * math.log10(tolerance))) if tolerance > 0 else HIGHEST


def _rule(start: float, end: float, order: int) -> tuple[Array, Array]:
    points, weights = clenshaw_curtis(order)
    return start + (end - start) * points, (end - start) * weights


def _visit(
    embedded: EmbeddingModel,
    embeddings: Tensor,
    paths: Sequence[_Path],
    wanted: dict[int, Array],
    options: SaliencyOptions,
) -> None:
    """Take gradients at the points that are new, points of several texts in one pass."""
    pairs = [
        (row, time)
        for row, times in wanted.items()
        for time in dict.fromkeys(map(_key, times))
        if time not in paths[row].products
    ]
    direction = embeddings - embedded.baseline
    for chosen in embedded.chunks([row for row, _ in pairs], options.batch_tokens):
        rows = [pairs[i][0] for i in chosen]
        width = max(embedded.lengths[row] for row in rows)
        steps = [paths[row].pace(np.array(pairs[i][1])) for i, row in zip(chosen, rows, strict=True)]
        shares, speeds = (np.array(column) for column in zip(*steps, strict=True))
        share = torch.from_numpy(shares).to(embeddings)[:, None, None]
        part = direction[rows, :width]
        values, gradients = embedded.gradients(
            embedded.baseline[rows, :width] + share * part, torch.tensor(rows)
        )
        products = speeds[:, None] * (gradients * part).sum(-1).double().cpu().numpy()
        for i, row, product, value in zip(chosen, rows, products, values.tolist(), strict=True):
            paths[row].values[pairs[i][1]] = value
            paths[row].products[pairs[i][1]] = product[: embedded.lengths[row]]


def _key(point: float) -> float:
    """Points of nested rules agree up to rounding."""
    return round(float(point), 12)


METHODS.register(
    "integrated_gradients",
    SaliencyMethod(
        name="integrated_gradients",
        compute=lambda embedded, options: integrated(embedded, embedded.embeddings, options),
        convention="share of the difference from the baseline: positive speaks for the target",
        source="Sundararajan et al. 2017, equation 1",
        passes=lambda tokens, options: 3 * (options.steps or 1 + _first_order(options.tolerance)),
        additive=True,
        complete=True,
        uses_baseline=True,
    ),
)
