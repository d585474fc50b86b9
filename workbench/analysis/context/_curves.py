"""Loss and accuracy by how much of the context is left, with intervals; the effective context length."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from jaxtyping import Float

from workbench.choices import member
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import bootstrap, wilson

__all__ = ["ContextPoint", "ToleranceOf", "context_points", "effective_length", "points_frame"]

TOLERANCE = 0.01  # of the loss or perplexity with the full context


class ToleranceOf(StrEnum):
    """What may rise by the tolerance."""

    LOSS = "loss"
    PERPLEXITY = "perplexity"  # exp(loss): 1 % of it is ln 1.01 = 0.00995 nats, whatever the loss is


_RESAMPLES = 2000


@dataclass(frozen=True)
class ContextPoint:
    """One condition over all items. ``loss`` is in nats a target, ``increase`` paired with the full context.

    ``changed`` is the share of the items in which the condition changed a word at all: contexts are not all long.
    """

    curve: str
    distance: int | None
    loss: Estimate
    accuracy: Estimate
    increase: Estimate | None  # None for the full context
    changed: float


def context_points(examples: pd.DataFrame, seed: int = 0) -> list[ContextPoint]:
    """The points of all curves from the examples of a run, the full context first.

    Raises :class:`~workbench.errors.DataError` where the full context was not scored for every item.
    """
    full = _column(examples, "full")
    points = []
    for key, rows in examples.groupby("condition", sort=False):
        loss = -rows.set_index("item")["log_probability"].astype(float)
        if not loss.index.isin(full.index).all():
            raise DataError(f"items of {key} lack the full context; resume the run")
        paired = (loss - full.loc[loss.index]).to_numpy()
        points.append(
            ContextPoint(
                curve=str(rows["curve"].iloc[0]),
                distance=None if key == "full" else int(rows["distance"].iloc[0]),
                loss=bootstrap(loss.to_numpy(), seed=seed, higher_is_better=False),
                accuracy=wilson(int(rows["greedy"].sum()), len(rows)),
                increase=None if key == "full" else bootstrap(paired, seed=seed, higher_is_better=False),
                changed=float((rows["changed"] > 0).mean()),
            )
        )
    return sorted(points, key=lambda p: (p.distance is not None, p.curve, p.distance or 0))


def _column(examples: pd.DataFrame, key: str) -> pd.Series[float]:
    """Loss in nats by item under one condition."""
    rows = examples[examples["condition"] == key]
    return -rows.set_index("item")["log_probability"].astype(float)


def points_frame(points: list[ContextPoint]) -> pd.DataFrame:
    """One row a point, with the ends of the 95 % intervals."""
    rows = []
    for point in points:
        row: dict[str, object] = {"curve": point.curve, "distance": point.distance}
        for name in ("loss", "accuracy", "increase"):
            found: Estimate | None = getattr(point, name)
            for field in ("value", "low", "high"):
                label = name if field == "value" else f"{name} {field}"
                row[label] = None if found is None else getattr(found, field)
        rows.append({**row, "changed": point.changed, "items": point.loss.n})
    return pd.DataFrame(rows)


def effective_length(
    examples: pd.DataFrame,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    *,
    of: ToleranceOf | str = ToleranceOf.LOSS,
) -> Estimate | None:
    """Fewest nearest words with which the mean loss, or its perplexity, is within ``tolerance`` of the full context's.

    After Khandelwal et al. 2018, "Sharp Nearby, Fuzzy Far Away", section 4, who ask for 1 % over tokens of running
    text; here words before a target are counted. ``of="perplexity"`` asks for less loss wherever that is above 1 nat.
    Of the numbers of words that were kept; all larger numbers must be as good. Where none is, infinite: more than was
    tried. The interval is a percentile bootstrap over items. ``None`` without any ``keep`` condition.
    """
    measure = member(ToleranceOf, of, "of", DataError)
    kept = examples[examples["curve"] == "keep"]
    if kept.empty:
        return None
    distances = sorted({int(d) for d in kept["distance"]})
    full = _column(examples, "full")
    columns = [_column(examples, f"keep@{d}").reindex(full.index) for d in distances]
    losses = np.stack([full.to_numpy(), *(c.to_numpy() for c in columns)], axis=1)
    if np.isnan(losses).any():
        raise DataError("not every item has every number of words kept; resume the run")
    value = _shortest(losses.mean(0)[None], distances, tolerance, measure)[0]
    drawn = np.random.default_rng(seed).integers(len(losses), size=(_RESAMPLES, len(losses)))
    found = np.concatenate(
        [_shortest(losses[rows].mean(1), distances, tolerance, measure) for rows in np.array_split(drawn, 20)]
    )
    finite = found[np.isfinite(found)]
    alike = bool((found == found[0]).all())
    return Estimate(
        value=float(value),
        standard_error=float(finite.std()) if len(finite) > 1 else float("nan"),
        low=float(np.quantile(found, 0.025, method="lower")),
        high=float(np.quantile(found, 0.975, method="higher")),
        n=len(losses),
        higher_is_better=None,
        undefined="every resample of the items gives the same number of words" if alike else None,
    )


def _shortest(
    means: Float[Array, "sample condition"], distances: list[int], tolerance: float, of: ToleranceOf
) -> Array:
    """For each sample: the first distance from which on the loss is within tolerance of column 0."""
    full = means[:, :1]
    within = means[:, 1:] <= (
        full * (1 + tolerance) if of is ToleranceOf.LOSS else full + np.log1p(tolerance)
    )
    from_here = np.logical_and.accumulate(within[:, ::-1], axis=1)[:, ::-1]
    first = from_here.argmax(1)
    return np.where(from_here.any(1), np.array(distances, dtype=float)[first], np.inf)
