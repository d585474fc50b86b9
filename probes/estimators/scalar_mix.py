"""One probe over all layers at once, and which layers it leans on (Peters et al. 2018; Tenney et al. 2019)."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor, nn

from probes.estimators.fitting import encode, features_of, train_classifier
from workbench.shapes import Array

__all__ = ["EdgeProbe", "ScalarMixProbe", "expected_layer"]


class _Mix(nn.Module):
    """gamma * sum_l softmax(s)_l h_l, then a linear layer or one with hidden units; (B, L, D) to (B, K)."""

    def __init__(self, scores: Tensor, learnt: bool, width: int, hidden: int | None, classes: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores, requires_grad=learnt)
        self.gamma = nn.Parameter(torch.ones(()))
        self.head = (
            nn.Linear(width, classes)
            if hidden is None
            else nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))
        )

    def forward(self, layers: Tensor) -> Tensor:
        """Logits (B, K) of stacked layers (B, L, D)."""
        mixed = torch.einsum("bld,l->bd", layers, torch.softmax(self.scores, 0))
        logits: Tensor = self.head(self.gamma * mixed)
        return logits


class ScalarMixProbe(ClassifierMixin, BaseEstimator):
    """A linear classifier on a learnt mixture of all layers, each standardised first, which theirs are not.

    ``fit(X (N, L, D), y)`` sets ``weights_`` (L,) and ``center_of_gravity_``, sum_l l * weight_l, which is in
    the units of ``layers`` (their numbers; 0, 1, 2, … by default). ``mixture`` (L,), positive and summing to
    one, is used as it is instead of a learnt one: that of another task's probe, for its control task.
    """

    hidden: int | None = None

    def __init__(
        self,
        layers: tuple[int, ...] | None = None,
        mixture: Array | None = None,
        epochs: int = 30,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.layers = layers
        self.mixture = mixture
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.seed = seed

    def fit(self, X: Array, y: Array) -> ScalarMixProbe:
        """Fit; raises :class:`~workbench.errors.TaskError` for one class or too many."""
        stacked = features_of(X, 3)
        self.classes_, codes = encode(y)
        self.mean_ = stacked.mean(0)
        deviation = stacked.std(0)
        self.deviation_ = np.where(deviation > 1e-6, deviation, 1.0).astype(np.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            layers, width = stacked.shape[1:]
            scores = torch.zeros(layers) if self.mixture is None else torch.as_tensor(self.mixture).log()
            learnt = self.mixture is None
            self.network_ = _Mix(scores.float(), learnt, width, self.hidden, len(self.classes_))
        train_classifier(
            self.network_,
            self._inputs(stacked),
            codes,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=self.seed,
        )
        weights: Array = torch.softmax(self.network_.scores.detach(), 0).numpy()
        self.weights_ = weights
        numbers = np.arange(len(weights)) if self.layers is None else np.array(self.layers)
        self.center_of_gravity_ = float(weights @ numbers)
        return self

    def _inputs(self, stacked: Array) -> Tensor:
        return torch.from_numpy(((stacked - self.mean_) / self.deviation_).astype(np.float32))

    def predict(self, X: Array) -> Array:
        """The likeliest class of each row."""
        with torch.no_grad():
            parts = [self.network_(x).argmax(1) for x in self._inputs(features_of(X, 3)).split(2048)]
        found: Array = self.classes_[torch.cat(parts).numpy()]
        return found


class EdgeProbe(ScalarMixProbe):
    """The mixture of layers of one or two spans, then a hidden layer.

    A plainer form of edge probing (Tenney et al. 2019, "What do you learn from context?"): each span is the mean of its
    tokens, where theirs are projected and pooled by attention; the vectors of two spans are joined, here with their
    product too.
    """

    hidden = 256


def expected_layer(scores: Array, layers: tuple[int, ...]) -> float:
    """Where probes over layers 0..l gain: sum l * gain_l / sum gain_l.

    Tenney et al. 2019, "BERT Rediscovers the Classical NLP Pipeline", equation 4. ``scores[l]`` is that of a probe
    which may use layers up to l. NaN where they gain nothing in total.
    """
    gains = np.diff(scores)
    total = float(gains.sum())
    return float(np.array(layers[1:]) @ gains / total) if total > 0 else float("nan")
