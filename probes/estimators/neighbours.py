"""Nearest neighbours: which label lies near, without any fitting; also for very many classes."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch.nn import functional as F

from probes.estimators.fitting import features_of
from workbench.errors import TaskError
from workbench.shapes import Array

__all__ = ["NeighbourProbe"]


class NeighbourProbe(ClassifierMixin, BaseEstimator):
    """Majority label of the ``neighbours`` rows of highest cosine after centring; ties go to the nearest."""

    def __init__(self, neighbours: int = 5) -> None:
        self.neighbours = neighbours

    def fit(self, X: Array, y: Array) -> NeighbourProbe:
        """Keep the rows; raises :class:`~workbench.errors.TaskError` if all have one label."""
        matrix = features_of(X)
        self.classes_, self.codes_ = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise TaskError("a probe needs at least two classes, the training items have one")
        self.mean_ = matrix.mean(0)
        self.rows_ = self._unit(matrix)
        return self

    def _unit(self, matrix: Array) -> torch.Tensor:
        return F.normalize(torch.from_numpy(matrix - self.mean_), dim=1)

    def predict(self, X: Array) -> Array:
        """The label that most of the nearest rows have."""
        count = min(self.neighbours, len(self.rows_))
        found = [
            (chunk @ self.rows_.T).topk(count).indices for chunk in self._unit(features_of(X)).split(1024)
        ]
        near = self.codes_[torch.cat(found).numpy()]  # (row, neighbour), nearest first
        same = (near[:, :, None] == near[:, None, :]).sum(2)  # how often each neighbour's label occurs
        winners = near[np.arange(len(near)), (same - 1e-3 * np.arange(count)).argmax(1)]
        labels: Array = self.classes_[winners]
        return labels
