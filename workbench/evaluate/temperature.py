"""Temperature scaling: one temperature fitted to held-out items, and the calibration that it gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from workbench.shapes import Array

__all__ = ["TemperatureScaling", "fit_temperature", "mean_loss", "scaled_by_halves"]

_COLDEST, _HOTTEST = 0.01, 100.0
_LEAST_PROBABILITY = 1e-12  # a stored 0 has no logarithm


@dataclass(frozen=True)
class TemperatureScaling:
    """Temperatures fitted to two halves of the items, each used on the other half (Guo et al. 2017, section 4.2).

    A temperature above 1 says that the model was overconfident. ``expected_error`` is the expected calibration error of
    all items so scaled, in the bins of the error before, and ``loss`` their mean negative log-likelihood in nats;
    ``loss_before`` is without scaling.
    """

    temperatures: tuple[float, float]
    expected_error: float
    loss: float
    loss_before: float


def fit_temperature(logits: Float[Array, "item class"], gold: Int[Array, " item"]) -> float:
    """The temperature T, from 0.01 to 100, with the least negative log-likelihood of softmax(logits / T).

    The loss is convex in 1 / T, so there is one least. Classes that an item lacks are minus infinity.
    """

    def loss(log_temperature: float) -> float:
        return _loss(logits / math.exp(log_temperature), gold)

    found = minimize_scalar(
        loss, bounds=(math.log(_COLDEST), math.log(_HOTTEST)), method="bounded", options={"xatol": 1e-6}
    )
    return float(math.exp(found.x))


def scaled_by_halves(
    probabilities: Sequence[Sequence[float]], gold: Sequence[int], *, seed: int, clusters: Array | None = None
) -> tuple[tuple[float, float], Float[Array, "item class"], Float[Array, "item class"]] | None:
    """A temperature for each half of the items, log-probabilities before, and after the other half's temperature.

    The halves are drawn by ``seed``, of whole ``clusters`` where there are any; one item or cluster has none.
    """
    labels = np.arange(len(gold)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    count = int(labels.max()) + 1
    if count < 2:
        return None
    logits, classes = _log_probabilities(probabilities), np.asarray(gold)
    first = np.isin(labels, np.random.default_rng(seed).permutation(count)[: count // 2])
    other = fit_temperature(logits[~first], classes[~first])
    own = fit_temperature(logits[first], classes[first])
    scaled = log_softmax(logits / np.where(first, other, own)[:, None], axis=1)
    return (own, other), logits, scaled


def mean_loss(log_probabilities: Float[Array, "item class"], gold: Sequence[int]) -> float:
    """Mean negative log-probability of the gold classes, in nats."""
    return float(-log_probabilities[np.arange(len(gold)), np.asarray(gold)].mean())


def _loss(logits: Array, gold: Array) -> float:
    return mean_loss(log_softmax(logits, axis=1), gold.tolist())


def _log_probabilities(probabilities: Sequence[Sequence[float]]) -> Float[Array, "item class"]:
    """Logarithms (item, most classes); minus infinity where an item has fewer classes."""
    found = np.full((len(probabilities), max(map(len, probabilities))), -np.inf)
    for row, values in zip(found, probabilities, strict=True):
        row[: len(values)] = np.log(np.maximum(values, _LEAST_PROBABILITY))
    return found
