"""Minimum description length by online coding (Voita & Titov 2020)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from probes.solvers import Problems, Rows, solve_logistic
from probes.solvers.rows import Scaling
from workbench.shapes import Array

__all__ = ["FRACTIONS", "OnlineCode", "online_code"]

# Ends of the blocks, as parts of the training data; theirs.
FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class OnlineCode:
    """The bits that it takes to send the labels to someone who has the features.

    ``uniform_bits`` is what it takes without a model; ``compression`` their ratio: 1 means that the features
    tell nothing, more that the labels are easy to extract.
    """

    bits: float
    uniform_bits: float
    block_bits: tuple[float, ...]

    @property
    def compression(self) -> float:
        """Uniform code length over online code length."""
        return self.uniform_bits / self.bits


def online_code(
    rows: Rows,
    targets: Int[Array, "problem row"],
    classes: int,
    *,
    strengths: Sequence[float] = (0.001, 0.01, 0.1, 1.0),
    clusters: Int[Array, " row"] | None = None,
    seed: int = 0,
) -> list[OnlineCode]:
    """The online code of each labelling of the rows: blocks are sent one after another, the first uniformly.

    Each next block is coded with probes trained on all before it. Those of several strengths are mixed, with weights by
    how well each has coded so far (a Bayesian mixture, itself a valid code), so that no strength is chosen with labels
    that the receiver lacks (theirs is one probe of fixed settings). Whole ``clusters`` (sentences) come in an order
    drawn by ``seed``.
    """
    order = _order(rows.count, clusters, seed)
    ends = _ends(rows.count, classes)
    matrix = np.concatenate([chunk.cpu().numpy() for _, chunk in rows])[order]
    ordered = np.asarray(targets)[:, order]
    log_p = [
        _next_block(matrix, ordered, start, stop, classes, strengths, rows.device)
        for start, stop in itertools.pairwise(ends)
    ]
    first, uniform = ends[0] * math.log2(classes), rows.count * math.log2(classes)
    codes = []
    for problem in range(len(ordered)):
        bits = [first, *_mixed([block[problem] for block in log_p])]
        codes.append(OnlineCode(float(sum(bits)), uniform, tuple(bits)))
    return codes


def _order(count: int, clusters: Array | None, seed: int) -> Array:
    draw = np.random.default_rng(seed)
    if clusters is None:
        return draw.permutation(count)
    names, codes = np.unique(clusters, return_inverse=True)
    return np.argsort(draw.permutation(len(names))[codes], kind="stable")


def _ends(count: int, classes: int) -> list[int]:
    """Where blocks end; the first holds at least some rows."""
    smallest = min(max(classes, 8), count)
    return sorted({max(math.ceil(f * count), smallest) for f in FRACTIONS})


def _next_block(
    matrix: Float[Array, "row width"],
    targets: Int[Array, "problem row"],
    start: int,
    stop: int,
    classes: int,
    strengths: Sequence[float],
    device: torch.device,
) -> Float[Array, "problem strength"]:
    """Natural log-probability of the labels of rows ``start`` to ``stop`` under probes of all rows before them."""
    count, known = len(strengths), _as_they_are(matrix.shape[1])
    problems = Problems(
        np.repeat(targets[:, :start], count, axis=0),
        np.ones((len(targets) * count, start), dtype=np.float32),
        np.tile(1 / np.asarray(strengths, dtype=float), len(targets)),
        classes,
    )
    solution = solve_logistic(Rows.of(matrix[:start], known, device), problems, tolerance=1e-3)
    coming = np.repeat(targets[:, start:stop], count, axis=0)
    log_p = solution.log_likelihoods(Rows.of(matrix[start:stop], known, device), coming)
    found: Array = log_p.sum(1, dtype=np.float64).reshape(len(targets), count)
    return found


def _as_they_are(width: int) -> Scaling:
    """For rows that are standardised already."""
    return Scaling(np.zeros(width, dtype=np.float32), np.ones(width, dtype=np.float32))


def _mixed(log_p: Sequence[Float[Array, " strength"]]) -> list[float]:
    """Bits of each block under the mixture of strengths."""
    so_far = np.zeros(len(log_p[0])) if log_p else np.zeros(0)
    bits = []
    for block in log_p:
        prior = so_far - np.logaddexp.reduce(so_far)
        bits.append(float(-np.logaddexp.reduce(prior + block) / math.log(2)))
        so_far = prior + block
    return bits
