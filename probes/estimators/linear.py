"""Linear classifiers of one feature matrix; many at once are solved by :mod:`probes.solvers`."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from probes.estimators.labels import encode, features_of
from probes.solvers import Problems, Rows, solve_logistic, solve_ridge
from workbench.shapes import Array

__all__ = ["LinearProbe", "RidgeProbe"]


class LinearProbe(ClassifierMixin, BaseEstimator):
    """Multinomial logistic regression on standardised features, the objective of scikit-learn's at ``C``.

    ``fit(X (N, D), y)`` sets ``classes_``, ``coef_`` (K, D) and ``intercept_`` (K,) of standardised features.
    """

    def __init__(self, C: float = 1.0, tolerance: float = 1e-4, device: str = "cpu") -> None:
        self.C = C
        self.tolerance = tolerance
        self.device = device

    def fit(self, X: Array, y: Array) -> LinearProbe:
        """Fit; raises :class:`~workbench.errors.TaskError` for one class or too many."""
        matrix = features_of(X)
        self.classes_, codes = encode(y)
        rows = Rows.of(matrix, device=self.device)
        problems = Problems(codes[None], np.ones((1, len(codes))), np.array([1 / self.C]), len(self.classes_))
        self._solution = solve_logistic(rows, problems, tolerance=self.tolerance)
        parameters = self._solution.parameters[0].cpu().numpy()
        self.scaling_, self.coef_, self.intercept_ = rows.scaling, parameters[:, :-1], parameters[:, -1]
        self.n_iter_ = int(self._solution.rounds[0])
        return self

    def _rows(self, X: Array) -> Rows:
        return Rows.of(features_of(X), self.scaling_, self.device)

    def predict(self, X: Array) -> Array:
        """The likeliest class of each row."""
        found: Array = self.classes_[self._solution.predict(self._rows(X))[0]]
        return found

    def predict_proba(self, X: Array) -> Array:
        """Probability of each class (N, K)."""
        found: Array = self._solution.log_probabilities(self._rows(X))[0].exp().cpu().numpy()
        return found


class RidgeProbe(ClassifierMixin, BaseEstimator):
    """Ridge regression to one column per class (1 or 0); the largest fitted value decides."""

    def __init__(self, alpha: float = 1.0, device: str = "cpu") -> None:
        self.alpha = alpha
        self.device = device

    def fit(self, X: Array, y: Array) -> RidgeProbe:
        """Fit; raises :class:`~workbench.errors.TaskError` for one class or too many."""
        matrix = features_of(X)
        self.classes_, codes = encode(y)
        rows = Rows.of(matrix, device=self.device)
        targets = np.eye(len(self.classes_))[codes]
        self._solution = solve_ridge(rows, targets, np.ones(len(codes)), [self.alpha])
        parameters = self._solution.parameters[0].cpu().numpy()
        self.scaling_, self.coef_, self.intercept_ = rows.scaling, parameters[:, :-1], parameters[:, -1]
        return self

    def predict(self, X: Array) -> Array:
        """The class with the largest fitted value for each row."""
        rows = Rows.of(features_of(X), self.scaling_, self.device)
        found: Array = self.classes_[self._solution.predict(rows)[0].argmax(-1).cpu().numpy()]
        return found
