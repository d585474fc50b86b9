"""Concept erasure: the smallest change after which no linear probe finds a label."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from probes.estimators.fitting import encode, features_of
from probes.estimators.linear import LinearProbe
from workbench.shapes import Array

__all__ = ["INLPEraser", "LeaceEraser"]


class LeaceEraser(TransformerMixin, BaseEstimator):
    """Least-squares concept erasure (Belrose et al. 2023): x - W^+ P W (x - mean).

    W whitens the features, P projects on the whitened covariance with the one-hot label. Among all affine
    changes that leave no linear information it moves the features least. ``fit`` sets ``mean_``,
    ``removed_`` (D, D) and ``rank_``, the number of directions.
    """

    def __init__(self, tolerance: float = 1e-5) -> None:
        self.tolerance = tolerance

    def fit(self, X: Array, y: Array) -> LeaceEraser:
        """Fit; raises :class:`~workbench.errors.TaskError` for one class."""
        matrix = features_of(X).astype(np.float64)
        classes, codes = encode(y)
        self.mean_ = matrix.mean(0)
        centred = matrix - self.mean_
        values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
        keep = values > self.tolerance * values.max()
        root = np.sqrt(values[keep])
        whiten = (vectors[:, keep] / root) @ vectors[:, keep].T
        unwhiten = (vectors[:, keep] * root) @ vectors[:, keep].T
        labels = np.eye(len(classes))[codes]
        cross = whiten @ (centred.T @ (labels - labels.mean(0)) / len(centred))
        left, sizes, _ = np.linalg.svd(cross, full_matrices=False)
        basis = left[:, sizes > self.tolerance * max(float(sizes.max()), 1e-12)]
        self.rank_ = basis.shape[1]
        self.removed_: Array = unwhiten @ basis @ basis.T @ whiten
        return self

    def transform(self, X: Array) -> Array:
        """The features without the concept (N, D)."""
        matrix = np.asarray(X, dtype=np.float64)
        found: Array = (matrix - (matrix - self.mean_) @ self.removed_.T).astype(np.float32)
        return found


class INLPEraser(TransformerMixin, BaseEstimator):
    """Iterative nullspace projection (Ravfogel et al. 2020): train a linear probe, project its rows away, repeat.

    Stops after ``rounds`` or when a probe is at most 0.005 better than the majority class. The probes are logistic
    regressions, theirs linear support vector machines; what is taken away is around the mean, theirs around 0. Sets
    ``removed_`` (D, D), the projection onto what was taken, ``mean_`` and ``rank_``.
    """

    def __init__(self, rounds: int = 20, C: float = 0.1) -> None:
        self.rounds = rounds
        self.C = C

    def fit(self, X: Array, y: Array) -> INLPEraser:
        """Fit; raises :class:`~workbench.errors.TaskError` for one class."""
        matrix = features_of(X).astype(np.float64)
        _, codes = encode(y)
        majority = np.bincount(codes).max() / len(codes)
        self.mean_ = matrix.mean(0)
        centred = matrix - self.mean_
        basis = np.zeros((matrix.shape[1], 0))
        for _ in range(self.rounds):
            left = centred - centred @ basis @ basis.T
            probe = LinearProbe(C=self.C).fit(left, codes)
            if probe.score(left, codes) <= majority + 0.005:
                break
            directions = (probe.coef_ / probe.scaling_.deviation).T  # in the features' own coordinates
            basis = _orthogonal(np.hstack([basis, directions]))
        self.rank_ = basis.shape[1]
        self.removed_: Array = basis @ basis.T
        return self

    def transform(self, X: Array) -> Array:
        """The features without the concept (N, D)."""
        matrix = np.asarray(X, dtype=np.float64)
        found: Array = (matrix - (matrix - self.mean_) @ self.removed_.T).astype(np.float32)
        return found


def _orthogonal(columns: Array) -> Array:
    """An orthonormal basis of the columns' span."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    found: Array = left[:, sizes > 1e-6 * sizes.max()]
    return found
