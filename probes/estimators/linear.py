"""Linear probes, and the neurons that their weights rank first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, ClassifierMixin

from probes.estimators.fitting import encode, features_of
from probes.solvers import Problems, Rows, solve_logistic, solve_ridge
from workbench.shapes import Array

__all__ = ["LinearProbe", "NeuronRanking", "RidgeProbe", "rank_neurons"]


class LinearProbe(ClassifierMixin, BaseEstimator):
    """Multinomial logistic regression on standardised features, as ``LogisticRegression(C)`` of scikit-learn.

    ``fit(X (N, D), y)`` sets ``classes_``, ``coef_`` (K, D) and ``intercept_`` (K,) of standardised features, and
    ``converged_``. Of two classes scikit-learn's one row of weights is ``coef_[1] - coef_[0]``.
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
        self.n_iter_, self.converged_ = int(self._solution.rounds[0]), bool(self._solution.converged[0])
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


@dataclass(frozen=True, eq=False)
class NeuronRanking:
    """Neurons from the most to the least important, and test accuracy with only the first few of them.

    ``weights`` is each neuron's mean absolute weight over classes, on standardised features. A high rank says
    that the probe uses the neuron, not that the model does: that takes an intervention.
    """

    order: Int[Array, " neuron"]
    weights: Float[Array, " neuron"]
    sizes: tuple[int, ...]
    accuracy: tuple[float, ...]
    bottom_accuracy: tuple[float, ...]  # with as many of the least important


def rank_neurons(
    train: Float[Array, "row width"],
    labels: Array,
    test: Float[Array, "row width"],
    test_labels: Array,
    *,
    C: float = 0.01,
    sizes: tuple[int, ...] = (1, 4, 16, 64),
) -> NeuronRanking:
    """Rank the neurons of one layer; probes on the top and bottom ones are fitted anew."""
    weights = np.abs(LinearProbe(C=C).fit(train, labels).coef_).mean(0)
    order = np.argsort(-weights, kind="stable")
    kept = tuple(size for size in sizes if size <= len(order))

    def accuracy(columns: Array) -> float:
        probe = LinearProbe(C=C).fit(train[:, columns], labels)
        return float(np.mean(probe.predict(test[:, columns]) == test_labels))

    return NeuronRanking(
        order,
        weights,
        kept,
        tuple(accuracy(order[:size]) for size in kept),
        tuple(accuracy(order[-size:]) for size in kept),
    )
