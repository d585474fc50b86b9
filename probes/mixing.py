"""Probes over all layers at once: mixing weights, centre of gravity, expected layer, edge probing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from tqdm.auto import tqdm

from probes._checkpoints import Arrays, Checkpointed
from probes._prepare import Prepared, item_matrix
from probes.classification import baselines, p_values, seen_share, test_items
from probes.conclusions import mixture_conclusions
from probes.estimators import EdgeProbe, ScalarMixProbe
from probes.estimators.scalar_mix import expected_layer
from probes.features import Features
from probes.report import ProbeReport
from probes.settings import ProbeSettings
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import bootstrap, mean_estimate, student_interval
from workbench.terminal import counted

__all__ = ["mix"]

# More items than this are thinned out evenly: all layers of all items are in memory at once.
_MOST_VALUES = 3 * 10**8
_RESAMPLES = 1000


def mix(
    prepared: Prepared, settings: ProbeSettings, checkpointed: Checkpointed, progress: bool = False
) -> ProbeReport:
    """Fit mixtures of the layers up to each, and their controls; refit on resampled sentences.

    The centre of gravity's interval is over refits on bootstrap resamples of the training sentences (as many as
    seeds); that of the expected layer over resamples of the test sentences.
    """
    fits = _Mixtures(prepared, settings, checkpointed, progress)
    summary, series = _summary(fits), _series(fits)
    floors = fits.comparisons()
    truth = fits.prepared.codes[fits.test]
    found = p_values(fits.correct[-1], floors, fits.clusters, settings.seed)
    seen = seen_share(prepared, fits.train, fits.test)
    levels = {name: fits.share(values) for name, values in floors.items()}
    return ProbeReport(
        model=prepared.features.model,
        task=settings.task,
        probe=settings.probe,
        metric="accuracy with layers up to this",
        layers=fits.layers,
        series=series,
        baselines=levels,
        summary=summary,
        p_values=found,
        conclusions=mixture_conclusions(summary, levels, found, len(np.unique(fits.clusters)), seen),
        stated=(
            f"Label: {prepared.data.about}; {counted(len(prepared.classes), 'class')}.",
            f"{len(fits.train):,} training and {counted(len(truth), 'test item')}; {prepared.split.statement}.",
            f"Mixtures refitted {settings.seeds} times on bootstrap resamples of the training sentences.",
            "A tenth of the training items chooses how long to train; the probe is then trained on all of them.",
            "The control task's probe reads the task's mixture of layers; with its own mixture it may lean on others.",
        ),
        items=test_items(prepared, fits.test, fits.upto),
    )


class _Mixtures:
    """The fits of one experiment, each made when it is first asked for, or read from its checkpoint."""

    def __init__(
        self, prepared: Prepared, settings: ProbeSettings, checkpointed: Checkpointed, progress: bool
    ) -> None:
        self.prepared = prepared
        self.settings = settings
        self.checkpointed = checkpointed
        self.progress = progress
        self.layers = prepared.features.layers
        self.probe = EdgeProbe if settings.probe == "edge" else ScalarMixProbe
        self.train = _thinned(prepared, len(self.layers), prepared.split.train)
        self.test = _thinned(prepared, len(self.layers), prepared.split.test)
        self.clusters = prepared.clusters(self.test)

    @cached_property
    def inputs(self) -> tuple[Array, Array]:
        """Training and test items at all layers (item, layer, width)."""
        return self._inputs(self.prepared.features)

    def _inputs(self, features: Features) -> tuple[Array, Array]:
        data = self.prepared.data
        train, test = (item_matrix(features, self.layers, data, rows) for rows in (self.train, self.test))
        return train, test

    def _bar(self, steps: Iterable[int], unit: str) -> Iterable[int]:
        return tqdm(steps, unit=unit, disable=not self.progress, leave=False)

    @cached_property
    def parts(self) -> list[Arrays]:
        """Of probes that may use the layers up to each: what they predict, and their mixtures."""
        return [self._upto(n) for n in self._bar(range(len(self.layers)), "layer")]

    @cached_property
    def upto(self) -> Array:
        """Classes (layer, item) by those probes."""
        return np.stack([part["predicted"] for part in self.parts])

    def _upto(self, last: int) -> Arrays:
        def inputs() -> tuple[Array, Array]:
            train, test = self.inputs
            return train[:, : last + 1], test[:, : last + 1]

        probe, codes = self.probe(layers=self.layers[: last + 1]), self.prepared.codes
        return self._part(f"layers up to {self.layers[last]}", probe, inputs, codes)

    def _part(
        self, name: str, probe: ScalarMixProbe, inputs: Callable[[], tuple[Array, Array]], labels: Array
    ) -> Arrays:
        """What ``probe`` predicts for the test items (item,) and its mixture (layer,), from their checkpoint.

        Without one it is fitted to ``inputs``, of training and of test items, which are read only then.
        """

        def fitted() -> Arrays:
            train, test = inputs()
            probe.fit(train, labels[self.train])
            return {"predicted": probe.predict(test), "weights": probe.weights_}

        return self.checkpointed(name, fitted)

    @cached_property
    def correct(self) -> Array:
        """Correctness (layer, item) of :attr:`upto`."""
        found: Array = (self.upto == self.prepared.codes[self.test]).astype(float)
        return found

    @cached_property
    def refits(self) -> tuple[Array, Array]:
        """Mixing weights (refit, layer) and centres of gravity (refit,) on resampled training sentences."""
        fits = [
            self.checkpointed(f"refit {seed}", lambda seed=seed: self._refit(seed))  # type: ignore[misc]
            for seed in self._bar(range(self.settings.seeds), "refit")
        ]
        return np.stack([f["weights"] for f in fits]), np.stack([f["centre"] for f in fits])

    def _refit(self, seed: int) -> Arrays:
        rows = _resampled(self.prepared.clusters(self.train), self.settings.seed + seed)
        codes = self.prepared.codes[self.train]
        fitted = self.probe(layers=self.layers, seed=seed).fit(self.inputs[0][rows], codes[rows])
        return {"weights": fitted.weights_, "centre": np.array(fitted.center_of_gravity_)}

    @cached_property
    def control(self) -> dict[str, Array]:
        """Correctness (item,) on the control task's labels: of a probe on the task's mixture, and with its own."""
        labels, mixture = self.prepared.control[0], self.parts[-1]["weights"]
        probes = {
            "control task": self.probe(layers=self.layers, mixture=mixture),
            "control task, own mixture": self.probe(layers=self.layers),
        }
        parts = {name: self._part(name, probe, lambda: self.inputs, labels) for name, probe in probes.items()}
        return {name: (part["predicted"] == labels[self.test]).astype(float) for name, part in parts.items()}

    def comparisons(self) -> dict[str, Array]:
        """Correctness (item,) of what the mixture of all layers is compared with."""
        codes, blank = self.prepared.codes, self.prepared.random
        found = baselines(self.prepared, self.settings, self.train, self.test)
        if blank is not None:
            part = self._part(
                "random weights", self.probe(layers=self.layers), lambda: self._inputs(blank), codes
            )
            found["random weights"] = part["predicted"] == codes[self.test]
        return {name: values.astype(float) for name, values in found.items()}

    def share(self, values: Array) -> Estimate:
        """Share of test items that are right, with an interval clustered by sentence."""
        return mean_estimate(values, seed=self.settings.seed, resamples=_RESAMPLES, clusters=self.clusters)

    def difference(self, values: Array) -> Estimate:
        """Mean over test items of a difference, with an interval clustered by sentence."""
        return bootstrap(values, seed=self.settings.seed, resamples=_RESAMPLES, clusters=self.clusters)


def _summary(fits: _Mixtures) -> dict[str, Estimate]:
    best = fits.correct[-1]
    controls = {name: fits.share(values) for name, values in fits.control.items()}
    gaps = {
        name.replace("control task", "selectivity"): fits.difference(best - values)
        for name, values in fits.control.items()
    }
    return {
        "center of gravity": _spread(fits.refits[1]),
        "expected layer": _expected(fits.correct, fits.layers, fits.clusters, fits.settings.seed),
        "accuracy of the mixture": fits.share(best),
        **controls,
        **gaps,
    }


def _series(fits: _Mixtures) -> dict[str, tuple[Estimate, ...]]:
    return {
        "accuracy with layers up to this": tuple(fits.share(row) for row in fits.correct),
        "mixing weight": tuple(_spread(weights) for weights in fits.refits[0].T),
    }


def _thinned(prepared: Prepared, layers: int, rows: Array) -> Array:
    """Whole sentences, as many as fit."""
    width = prepared.features.values.shape[2] * (1 if prepared.data.place_rows.shape[1] == 1 else 3)
    most = max(1000, _MOST_VALUES // (layers * width))
    if len(rows) <= most:
        return rows
    clusters = prepared.clusters(rows)
    names = np.random.default_rng(0).permutation(np.unique(clusters))
    sizes = np.array([np.count_nonzero(clusters == name) for name in names]).cumsum()
    return rows[np.isin(clusters, names[: max(1, int(np.searchsorted(sizes, most)))])]


def _resampled(clusters: Array, seed: int) -> Array:
    """Rows of sentences drawn with replacement."""
    names, codes = np.unique(clusters, return_inverse=True)
    members = np.split(np.argsort(codes, kind="stable"), np.bincount(codes).cumsum()[:-1])
    drawn = np.random.default_rng(seed).integers(len(names), size=len(names))
    return np.concatenate([members[k] for k in drawn])


def _spread(values: Array) -> Estimate:
    """Mean over refits on resampled sentences; their spread is the standard error (Efron & Tibshirani 1993)."""
    error = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    method = "Student's t, refits on resampled training sentences"
    return replace(student_interval(float(values.mean()), error, len(values), method), higher_is_better=None)


def _expected(correct: Array, layers: tuple[int, ...], clusters: Array, seed: int) -> Estimate:
    """The expected layer with an interval over resamples of the test sentences."""
    names, codes = np.unique(clusters, return_inverse=True)
    sums = np.stack([np.bincount(codes, weights=row) for row in correct])  # (layer, sentence)
    counts = np.bincount(codes)
    draws = np.random.default_rng(seed).integers(len(names), size=(_RESAMPLES, len(names)))
    found = np.array([expected_layer(sums[:, d].sum(1) / counts[d].sum(), layers) for d in draws])
    values = found[np.isfinite(found)]
    enough = len(values) > len(found) / 2  # else the layers gain nothing that could be placed
    low, high = np.quantile(values, [0.025, 0.975]) if enough else (np.nan, np.nan)
    return Estimate(
        value=expected_layer(correct.mean(1), layers),
        standard_error=float(values.std(ddof=1)) if enough else float("nan"),
        low=float(low),
        high=float(high),
        n=len(names),
        method="percentile bootstrap over clusters",
        higher_is_better=None,
    )
