"""The record that every analysis returns: a named labelled array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from workbench.drawn import Drawn
from workbench.estimate import Estimate
from workbench.shapes import Array

__all__ = ["Statistic", "join_statistics"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Statistic(Drawn):
    """A named array with a unit, axis names, labels along each axis, standard errors and intervals.

    ``values`` has one axis per name in ``axes``; ``labels[axis]`` has one entry per position along it
    (0, 1, 2, ... where absent); ``standard_error``, and ``low`` and ``high`` of an interval, have the shape of
    ``values`` or are ``None``. ``count`` is the number of independent draws (texts, sequences) behind each value.
    """

    drawn_by = "statistic_view"

    name: str
    unit: str
    values: Array
    axes: tuple[str, ...]
    labels: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    standard_error: Array | None = None
    note: str = ""
    low: Array | None = None
    high: Array | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != len(self.axes):
            raise ValueError(f"{self.name}: {self.values.ndim} dimensions but axes {self.axes}")
        for axis, labels in self.labels.items():
            size = self.values.shape[self.axes.index(axis)]
            if len(labels) != size:
                raise ValueError(f"{self.name}: axis {axis!r} has {size} positions, {len(labels)} labels")
        for name, beside in self._beside().items():
            if beside.shape != self.values.shape:
                raise ValueError(f"{self.name}: {name} {beside.shape}, values {self.values.shape}")

    @classmethod
    def of_estimates(
        cls, estimates: Sequence[Estimate], labels: Sequence[str | int], *, axis: str = "layer", **about: Any
    ) -> Statistic:
        """One axis with an estimate at each of its ``labels``; ``about`` has name, unit and what else is known."""
        columns: dict[str, Any] = {
            name: np.array([getattr(estimate, name) for estimate in estimates])
            for name in ("value", "standard_error", "low", "high")
        }
        values = columns.pop("value")
        return cls(values=values, axes=(axis,), labels={axis: tuple(labels)}, **columns, **about)

    def _beside(self) -> dict[str, Array]:
        """What is known of each value's spread, by name."""
        found = {"standard_error": self.standard_error, "low": self.low, "high": self.high}
        return {name: values for name, values in found.items() if values is not None}

    def to_frame(self) -> pd.DataFrame:
        """Long format: one row per cell, a column per axis, then ``value`` and what is known of its spread."""
        levels = [
            list(self.labels.get(a, range(n))) for a, n in zip(self.axes, self.values.shape, strict=True)
        ]
        frame = pd.MultiIndex.from_product(levels, names=self.axes).to_frame(index=False)
        frame["value"] = self.values.reshape(-1)
        for name, beside in self._beside().items():
            frame[name] = beside.reshape(-1)
        frame.attrs.update(name=self.name, unit=self.unit, note=self.note)
        return frame

    def at(self, **position: str | int) -> float:
        """The value at labelled positions: ``statistic.at(layer=0, head=3)``."""
        index = tuple(
            self.labels[a].index(position[a]) if a in self.labels else int(position[a]) for a in self.axes
        )
        return float(self.values[index])

    def __repr__(self) -> str:
        shape = ", ".join(f"{a} {n}" for a, n in zip(self.axes, self.values.shape, strict=True))
        spread = (
            f"{np.nanmin(self.values):.4g} to {np.nanmax(self.values):.4g}" if self.values.size else "empty"
        )
        return f"<Statistic {self.name} [{self.unit}] ({shape}): {spread}>"


def join_statistics(found: Mapping[Any, Statistic], axis: str) -> Statistic:
    """Statistics of one name and shape as one, with ``axis`` in front, labelled by the keys of ``found``.

    Errors, intervals and counts are kept where every one has them. Raises :class:`ValueError` for none.
    """
    if not found:
        raise ValueError(f"no statistics to join along {axis!r}")
    first = next(iter(found.values()))

    def stacked(name: str) -> Array | None:
        parts = [getattr(statistic, name) for statistic in found.values()]
        return None if any(part is None for part in parts) else np.stack(parts)

    sizes = {a: tuple(range(n)) for a, n in zip(first.axes, first.values.shape, strict=True)}
    return replace(
        first,
        values=np.stack([statistic.values for statistic in found.values()]),
        axes=(axis, *first.axes),
        labels={axis: tuple(found), **sizes, **first.labels},
        standard_error=stacked("standard_error"),
        low=stacked("low"),
        high=stacked("high"),
    )
