"""The result of a probing experiment: numbers by layer with their controls, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from jaxtyping import Int

from workbench.errors import TaskError
from workbench.estimate import Estimate
from workbench.figures import Curve, View, curve_plot
from workbench.shapes import Array

__all__ = ["ProbeReport", "TestItems"]


@dataclass(frozen=True, eq=False)
class TestItems:
    """The items that were tested, and what the probes of each layer (of the first seed) predicted."""

    names: tuple[str, ...]  # where each comes from
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    classes: tuple[str, ...]
    predictions: Int[Array, "layer item"]


@dataclass(frozen=True, eq=False, repr=False)
class ProbeReport:
    """Numbers of one experiment. ``metric`` is the main series; each series has an Estimate for each layer.

    ``baselines`` are numbers to compare with that have no layer, ``summary`` others of the whole experiment.
    ``conclusions`` say in words what may and may not be concluded; ``stated`` how the experiment was made.
    """

    model: str
    task: str
    probe: str
    metric: str
    layers: tuple[int, ...]
    series: Mapping[str, tuple[Estimate, ...]]
    baselines: Mapping[str, Estimate] = field(default_factory=dict)
    summary: Mapping[str, Estimate] = field(default_factory=dict)
    p_values: Mapping[str, float] = field(default_factory=dict)
    conclusions: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()
    items: TestItems | None = None

    def __post_init__(self) -> None:
        assert self.metric in self.series, f"{self.metric} is not among {list(self.series)}"
        for name, values in self.series.items():
            assert len(values) == len(self.layers), f"{name}: {len(values)} values, {len(self.layers)} layers"

    @property
    def best_layer(self) -> int:
        """The layer where the main series is highest."""
        values = [estimate.value for estimate in self.series[self.metric]]
        return self.layers[int(np.nanargmax(values))]

    def at(self, series: str, layer: int) -> Estimate:
        """One number; raises :class:`TaskError` for a series or layer that the report lacks."""
        if series not in self.series:
            raise TaskError(f"the report has no series {series!r}; it has {', '.join(self.series)}")
        return self.series[series][self._row(layer)]

    def _row(self, layer: int) -> int:
        if layer not in self.layers:
            raise TaskError(f"layer {layer} was not probed; probed were {', '.join(map(str, self.layers))}")
        return self.layers.index(layer)

    def to_frame(self) -> pd.DataFrame:
        """One row for each number: series, layer (empty for baselines and summaries), value, error, interval."""
        rows: list[tuple[str, int | None, Estimate]] = [
            (name, layer, e)
            for name, values in self.series.items()
            for layer, e in zip(self.layers, values, strict=True)
        ]
        rows += [(name, None, e) for part in (self.baselines, self.summary) for name, e in part.items()]
        columns = ("value", "standard_error", "low", "high", "n")
        frame = pd.DataFrame(
            [(name, layer, *(getattr(e, c) for c in columns), e.undefined or "") for name, layer, e in rows],
            columns=["series", "layer", *columns, "undefined"],
        )
        return frame.astype({"layer": "Int64"})

    def figure(self, display_mode: str = "auto") -> View:
        """Each series over the layers with its interval as a band; baselines as level bands.

        Compression is drawn as its inverse, the code length as a part of the uniform code's, so that all lie
        between 0 and 1.
        """
        curves = [_curve(*_drawn(name, values), self.layers) for name, values in self.series.items()]
        ends = (
            (self.layers[0], self.layers[-1])
            if len(self.layers) > 1
            else (self.layers[0], self.layers[0] + 1)
        )
        curves += [_curve(name, (e, e), ends) for name, e in self.baselines.items()]
        return curve_plot(
            curves,
            y="value",
            note="Bands are 95 % intervals, clustered by sentence. " + " ".join(self.conclusions[:2]),
            title=f"{self.task} in {self.model}: {self.probe} probe",
            display_mode=display_mode,
        )

    def confusion(self, layer: int) -> pd.DataFrame:
        """How often each label (rows) was predicted as each (columns) at a layer, by the first seed's probe."""
        items = self._items()
        predicted = [items.classes[k] for k in items.predictions[self._row(layer)]]
        order = sorted({*items.labels, *items.classes})
        table = pd.crosstab(pd.Series(items.labels, name="label"), pd.Series(predicted, name="predicted"))
        return table.reindex(index=order, columns=order, fill_value=0)

    def errors(self, layer: int) -> pd.DataFrame:
        """The test items that the first seed's probe of a layer got wrong, one row each."""
        items = self._items()
        predicted = np.array([items.classes[k] for k in items.predictions[self._row(layer)]])
        wrong = np.flatnonzero(predicted != np.array(items.labels))
        return pd.DataFrame(
            {
                "sentence": [items.names[i] for i in wrong],
                "text": [items.texts[i] for i in wrong],
                "label": [items.labels[i] for i in wrong],
                "predicted": predicted[wrong],
            }
        )

    def _items(self) -> TestItems:
        if self.items is None:
            raise TaskError(f"a {self.probe} probe labels no single items, so there is no table of them")
        return self.items

    def __str__(self) -> str:
        best = self.at(self.metric, self.best_layer)
        head = f"{self.task} in {self.model}: {self.metric} {best} at layer {self.best_layer} ({self.probe} probe)"
        return "\n".join([head, *(f"- {line}" for line in self.conclusions)])

    def __repr__(self) -> str:
        best = self.at(self.metric, self.best_layer)
        return f"<ProbeReport {self.task} in {self.model}: {self.metric} {best} at layer {self.best_layer}>"

    def _repr_html_(self) -> str:
        return self.figure()._repr_html_()


def _curve(name: str, values: tuple[Estimate, ...], x: tuple[int, ...]) -> Curve:
    return Curve(
        name=name,
        x=list(x),
        y=[e.value for e in values],
        low=[e.low for e in values],
        high=[e.high for e in values],
    )


def _drawn(name: str, values: tuple[Estimate, ...]) -> tuple[str, tuple[Estimate, ...]]:
    """A series as it is drawn."""
    if not name.startswith("compression"):
        return name, values
    inverse = tuple(
        replace(e, value=1 / e.value, low=1 / e.high, high=1 / e.low if e.low > 0 else float("nan"))
        for e in values
    )
    return name.replace("compression", "code length"), inverse
