"""Individual neurons by how much a linear probe leans on them (Dalvi et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from probes.estimators.linear import LinearProbe
from workbench.shapes import Array

__all__ = ["NeuronRanking", "rank_neurons"]


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
