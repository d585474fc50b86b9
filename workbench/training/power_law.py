"""Power laws between size and loss: L(x) = E + (C / x)^a, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from workbench.errors import NumericsError
from workbench.estimate import Estimate

__all__ = ["PowerLaw", "fit_power_law"]

RESAMPLES = 200


@dataclass(frozen=True)
class PowerLaw:
    """Kaplan et al. 2020, "Scaling Laws for Neural Language Models", equations 1.1 and 1.2, with a floor.

    ``exponent`` is a, ``scale`` is C in the unit of x, ``floor`` the loss E that remains; 0 where it was not fitted.
    """

    exponent: Estimate
    scale: float
    floor: float
    unit: str

    def __call__(self, x: Float[np.ndarray, " point"]) -> Float[np.ndarray, " point"]:
        """The loss at ``x``."""
        predicted: Float[np.ndarray, " point"] = self.floor + (self.scale / x) ** self.exponent.value
        return predicted


def fit_power_law(
    x: Sequence[float], loss: Sequence[float], *, unit: str, with_floor: bool = False, seed: int = 0
) -> PowerLaw:
    """Fit by least squares of log loss; the exponent's interval is over resampled points (percentile bootstrap).

    Without a floor this is a straight line in logarithms. Raises :class:`~workbench.errors.NumericsError` for fewer
    than three different sizes, four with a floor.
    """
    points, losses = np.asarray(x, dtype=float), np.asarray(loss, dtype=float)
    needed = 4 if with_floor else 3
    if len(np.unique(points)) < needed or (points <= 0).any() or (losses <= 0).any():
        raise NumericsError(
            f"a power law needs {needed} different positive sizes with positive losses, "
            f"got {len(np.unique(points))}; vary width or tokens more"
        )
    exponent, scale, floor = _fit(points, losses, with_floor)
    rng = np.random.default_rng(seed)
    exponents: list[float] = []
    while len(exponents) < RESAMPLES:
        drawn = rng.integers(len(points), size=len(points))
        if len(np.unique(points[drawn])) >= min(needed, 2 if not with_floor else needed):
            exponents.append(_fit(points[drawn], losses[drawn], with_floor)[0])
    low, high = (float(v) for v in np.quantile(exponents, [0.025, 0.975]))
    estimate = Estimate(
        value=exponent, standard_error=float(np.std(exponents, ddof=1)), low=low, high=high, n=len(points)
    )
    return PowerLaw(estimate, scale, floor, unit)


def _fit(x: np.ndarray, loss: np.ndarray, with_floor: bool) -> tuple[float, float, float]:
    slope, intercept = np.polyfit(np.log(x), np.log(loss), 1)
    exponent = float(-slope)
    if not with_floor:
        scale = float(np.exp(intercept / exponent)) if abs(exponent) > 1e-12 else 1.0
        return exponent, scale, 0.0

    def wrong(parameters: np.ndarray) -> np.ndarray:
        log_scale, a, log_floor = parameters
        predicted = np.exp(log_floor) + np.exp(a * (log_scale - np.log(x)))
        residuals: np.ndarray = np.log(predicted) - np.log(loss)
        return residuals

    start = np.array([np.log(x).mean(), max(exponent, 0.05) * 2, np.log(loss.min() * 0.7)])
    found = least_squares(wrong, start).x
    return float(found[1]), float(np.exp(found[0])), float(np.exp(found[2]))
