"""A classifier with one hidden layer: what it finds need not be linear."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn

from probes.estimators.fitting import encode, features_of, train_classifier
from workbench.shapes import Array

__all__ = ["MLPProbe"]


class MLPProbe(ClassifierMixin, BaseEstimator):
    """Standardised features, ``hidden`` ReLU units, softmax; AdamW, as many epochs as a tenth of the rows chooses."""

    def __init__(
        self,
        hidden: int = 128,
        epochs: int = 40,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.seed = seed

    def fit(self, X: Array, y: Array) -> MLPProbe:
        """Fit; raises :class:`~workbench.errors.TaskError` for one class or too many."""
        matrix = features_of(X)
        self.classes_, codes = encode(y)
        self.mean_ = matrix.mean(0)
        deviation = matrix.std(0)
        self.deviation_ = np.where(deviation > 1e-6, deviation, 1.0).astype(np.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network_ = nn.Sequential(
                nn.Linear(matrix.shape[1], self.hidden), nn.ReLU(), nn.Linear(self.hidden, len(self.classes_))
            )
        self.n_iter_ = train_classifier(
            self.network_,
            self._inputs(matrix),
            codes,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=self.seed,
        )
        return self

    def _inputs(self, matrix: Array) -> torch.Tensor:
        return torch.from_numpy(((matrix - self.mean_) / self.deviation_).astype(np.float32))

    def predict(self, X: Array) -> Array:
        """The likeliest class of each row."""
        found: Array = self.classes_[self.predict_proba(X).argmax(1)]
        return found

    def predict_proba(self, X: Array) -> Array:
        """Probability of each class (N, K)."""
        with torch.no_grad():
            parts = [torch.softmax(self.network_(x), 1) for x in self._inputs(features_of(X)).split(4096)]
        found: Array = torch.cat(parts).numpy()
        return found
