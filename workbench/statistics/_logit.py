"""Multinomial logit models by maximum likelihood, with a covariance that allows for groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from workbench.shapes import Array

__all__ = ["Fit", "fit_logit", "two_outcomes"]

_STEPS = 100
_CONVERGED = 1e-10  # largest change of a parameter in a Newton step
_LARGEST = 20.0  # log-odds of outcomes; beyond are those that grow without end where no maximum exists


@dataclass(frozen=True)
class Fit:
    """Parameters (parameter,), their covariance, and the number of independent groups of rows behind both."""

    parameters: Array
    covariance: Array
    groups: int


def two_outcomes(design: Array, score: Array) -> tuple[Array, Array]:
    """Features (row, 2, parameter) and weights (row, 2) of a logistic regression of ``score`` (row,), 0 to 1.

    ``design`` is (row, parameter); a score of a half is half of either outcome.
    """
    return np.stack([design / 2, -design / 2], axis=1), np.stack([score, 1 - score], axis=1)


def fit_logit(features: Array, weights: Array, clusters: Sequence[Any] | Array | None = None) -> Fit | None:
    """Fit P(outcome k of row i) proportional to exp(features[i, k] . parameters), each outcome counted by its weight.

    ``features`` is (row, outcome, parameter), ``weights`` (row, outcome). Newton's method with halved steps; the
    covariance is the sandwich of Liang & Zeger (1986) over ``clusters`` (single rows without them), times G / (G - 1)
    for G groups: right also where rows of a group depend on one another, or weights of a half stand for ties.
    ``None`` where the likelihood has no maximum, or its curvature none in some direction.
    """
    parameters = np.zeros(features.shape[2])
    for _ in range(_STEPS):
        gradients, curvature = _derivatives(features, weights, parameters)
        if np.linalg.matrix_rank(curvature) < len(parameters):
            return None
        step = np.linalg.solve(curvature, gradients.sum(0))
        parameters = parameters + _shortened(features, weights, parameters, step)
        if np.ptp(features @ parameters, axis=1).max() > _LARGEST:
            return None
        if np.abs(step).max() < _CONVERGED:
            break
    else:
        return None
    gradients, curvature = _derivatives(features, weights, parameters)
    labels = np.arange(len(gradients)) if clusters is None else np.asarray([str(c) for c in clusters])
    codes = np.unique(labels, return_inverse=True)[1]
    groups = int(codes.max()) + 1
    sums = np.zeros((groups, len(parameters)))
    np.add.at(sums, codes, gradients)
    inverse = np.linalg.inv(curvature)
    correction = groups / (groups - 1) if groups > 1 else np.nan
    return Fit(parameters, inverse @ (sums.T @ sums) @ inverse * correction, groups)


def _derivatives(features: Array, weights: Array, parameters: Array) -> tuple[Array, Array]:
    """The gradient of each row (row, parameter), and minus the second derivative of all (parameter, parameter)."""
    chances = softmax(features @ parameters, axis=1)
    total = weights.sum(1)
    centred = features - np.einsum("ik,ikp->ip", chances, features)[:, None, :]
    curvature = np.einsum("i,ik,ikp,ikq->pq", total, chances, centred, centred)
    return np.einsum("ik,ikp->ip", weights, centred), curvature


def _shortened(features: Array, weights: Array, parameters: Array, step: Array) -> Array:
    """``step``, halved until it raises the likelihood."""
    before = _log_likelihood(features, weights, parameters)
    for _ in range(40):
        if _log_likelihood(features, weights, parameters + step) >= before - 1e-12 * abs(before):
            break
        step = step / 2
    return step


def _log_likelihood(features: Array, weights: Array, parameters: Array) -> float:
    utilities = features @ parameters
    return float((weights * (utilities - logsumexp(utilities, axis=1, keepdims=True))).sum())
