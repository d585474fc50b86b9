"""Minimum description length by online coding (Voita & Titov 2020, section 2.2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from probes.solvers import Problems, Rows, solve_logistic
from workbench.shapes import Array

__all__ = ["FRACTIONS", "OnlineCode", "online_code"]

# Ends of the blocks, as parts of the training data (their section 3.1).
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
    clusters: Int[Array, "row"] | None = None,
    seed: int = 0,
) -> list[OnlineCode]:
    """The online code of each labelling of the rows: blocks are sent one after another, the first uniformly.

    Each next block is coded with probes trained on all before it. Those of several strengths are mixed, with
    weights by how well each has coded so far (a Bayesian mixture, itself a valid code), so that no strength is
    chosen with labels that the receiver lacks. Whole ``clusters`` (sentences) come in an order drawn by ``seed``.
    """
    order = _order(rows.count, clusters, seed)
    ends = _ends(rows.count, classes)
    weights = np.zeros((len(ends) - 1, rows.count), dtype=np.float32)
    for k, end in enumerate(ends[:-1]):
        weights[k, order[:end]] = 1.0
    codes = []
    for labels in targets:
        log_p = _log_probabilities(rows, labels, weights, classes, strengths)  # (block, strength, row)
        first = ends[0] * math.log2(classes)
        bits = [first, *_mixed(log_p, order, ends)]
        codes.append(OnlineCode(float(sum(bits)), rows.count * math.log2(classes), tuple(bits)))
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


def _log_probabilities(
    rows: Rows, labels: Array, weights: Array, classes: int, strengths: Sequence[float]
) -> Float[Array, "block strength row"]:
    """Natural log-probability of each row's own label under each block's probes."""
    blocks, count = weights.shape
    found = np.empty((blocks, len(strengths), count))
    for k in range(blocks):
        repeated = np.repeat(weights[k][None], len(strengths), axis=0)
        problems = Problems(
            np.repeat(labels[None], len(strengths), axis=0),
            repeated,
            1 / np.asarray(strengths, dtype=float),
            classes,
        )
        found[k] = solve_logistic(rows, problems, tolerance=1e-3).log_likelihoods(rows, labels)
    return found


def _mixed(log_p: Array, order: Array, ends: list[int]) -> list[float]:
    """Bits of each block under the mixture of strengths."""
    so_far = np.zeros(log_p.shape[1])
    bits = []
    for k, (start, stop) in enumerate(itertools.pairwise(ends)):
        per_strength = log_p[k][:, order[start:stop]].sum(1)
        prior = so_far - np.logaddexp.reduce(so_far)
        bits.append(float(-np.logaddexp.reduce(prior + per_strength) / math.log(2)))
        so_far = prior + per_strength
    return bits
