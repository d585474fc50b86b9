"""The default experiment: a classifier of each layer with all of its controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tqdm.auto import tqdm

from probes._fit import CURVE, LayerFit, fit_layer, fit_static
from probes._prepare import Prepared
from probes.conclusions import classification_conclusions
from probes.controls import majority, permutation_p, word_identity
from probes.report import ProbeReport, TestItems
from probes.settings import ProbeSettings
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import bootstrap

__all__ = ["Keep", "classify"]

# Gives a layer's result if it is there already, else makes and keeps it.
Keep = Callable[[int, Callable[[], LayerFit]], LayerFit]
_RESAMPLES = 1000


def classify(prepared: Prepared, settings: ProbeSettings, keep: Keep, progress: bool = False) -> ProbeReport:
    """Fit every layer and put the numbers together."""
    layers = prepared.features.layers
    bar = tqdm(layers, unit="layer", disable=not progress, leave=False)
    fits = [keep(n, lambda n=n: fit_layer(prepared, n, settings)) for n in bar]  # type: ignore[misc]
    return _Numbers(prepared, settings, fits).report()


class _Numbers:
    """Correctness of each test item under each condition, and the estimates made of it."""

    def __init__(self, prepared: Prepared, settings: ProbeSettings, fits: Sequence[LayerFit]) -> None:
        self.prepared = prepared
        self.settings = settings
        self.fits = fits
        test = prepared.split.test
        self.clusters = prepared.clusters(test)
        self.truth = prepared.test_codes
        self.accuracy = np.stack([(f.predictions == self.truth).mean(0) for f in fits])  # (layer, item)
        control = prepared.control[:, test]
        self.control = np.stack([(f.control == control).mean(0) for f in fits])
        self.baselines = self._baselines()

    def report(self) -> ProbeReport:
        """All of it as a report."""
        layers = self.prepared.features.layers
        series = self._series()
        baselines = {name: self.estimate(values) for name, values in self.baselines.items()}
        p_values = self._p_values()
        sentences = len(np.unique(self.clusters))
        return ProbeReport(
            model=self.prepared.features.model,
            task=self.settings.task,
            probe=self.settings.probe,
            metric="accuracy",
            layers=layers,
            series=series,
            baselines=baselines,
            summary=self._summary(),
            p_values=p_values,
            conclusions=classification_conclusions(
                layers, series, baselines, p_values, self._indistinct(), sentences
            ),
            stated=self._stated(sentences),
            items=self._items(),
        )

    def estimate(self, values: Array, clusters: Array | None = None) -> Estimate:
        """Mean with an interval clustered by sentence."""
        groups = self.clusters if clusters is None else clusters
        return bootstrap(values, seed=self.settings.seed, resamples=_RESAMPLES, clusters=groups)

    def _series(self) -> dict[str, tuple[Estimate, ...]]:
        found = {
            "accuracy": self.accuracy,
            "control task": self.control,
            "selectivity": self.accuracy - self.control,
        }
        if self.fits[0].random is not None:
            found["random weights"] = np.stack(
                [np.equal(np.asarray(f.random), self.truth).mean(0) for f in self.fits]
            )
        series = {name: tuple(self.estimate(row) for row in rows) for name, rows in found.items()}
        if self.fits[0].bits is not None:
            bits = np.stack([f.bits for f in self.fits if f.bits is not None])  # (layer, seed, 3)
            series["compression"] = tuple(_over_seeds(b[:, 2] / b[:, 0]) for b in bits)
            series["compression of the control task"] = tuple(_over_seeds(b[:, 2] / b[:, 1]) for b in bits)
        return series

    def _random(self) -> Array:
        """Correctness (layer, item) of the probes on random weights."""
        return np.stack(
            [(f.random[0] == self.truth).astype(float) for f in self.fits if f.random is not None]
        )

    def _baselines(self) -> dict[str, Array]:
        """Correctness of each test item under what needs no layer."""
        train, test = self.prepared.split.train, self.prepared.split.test
        codes = self.prepared.train_codes
        identity = word_identity(self.prepared.types(train), codes, self.prepared.types(test))
        found = {
            "majority class": majority(codes, len(test)),
            "word identity": identity,
            "static embedding": fit_static(self.prepared, self.settings),
        }
        return {name: (guess == self.truth).astype(float) for name, guess in found.items()}

    def _best(self) -> int:
        return int(self.accuracy.mean(1).argmax())

    def _p_values(self) -> dict[str, float]:
        """Paired permutation tests of the best layer against each baseline and the best random layer."""
        best = self.accuracy[self._best()]
        others = dict(self.baselines)
        if self.fits[0].random is not None:
            rows = [np.equal(np.asarray(f.random), self.truth).mean(0) for f in self.fits]
            others["random weights"] = max(rows, key=lambda row: float(row.mean()))
        seed = self.settings.seed
        return {name: permutation_p(best - row, self.clusters, seed) for name, row in others.items()}

    def _indistinct(self) -> list[int]:
        """Layers whose difference from the best has an interval that holds 0."""
        best = self.accuracy[self._best()]
        layers = self.prepared.features.layers
        found = []
        for number, row in zip(layers, self.accuracy, strict=True):
            difference = self.estimate(best - row)
            if not difference.low > 0:
                found.append(number)
        return found

    def _summary(self) -> dict[str, Estimate]:
        """The learning curve of the best layer."""
        curve = self.fits[self._best()].curve
        if curve is None:
            return {}
        return {
            f"accuracy with {share:.0%} of the training sentences": self.estimate(
                (row == self.truth).astype(float)
            )
            for share, row in zip(CURVE, curve, strict=True)
        }

    def _stated(self, sentences: int) -> tuple[str, ...]:
        prepared, settings = self.prepared, self.settings
        strengths = "; ".join(
            f"layer {n}: {', '.join(f'{c:g}' for c in f.strengths)}"
            for n, f in zip(prepared.features.layers, self.fits, strict=True)
            if np.isfinite(f.strengths).all()
        )
        lines = [
            f"Label: {prepared.data.about}; {len(prepared.classes)} classes.",
            f"{len(prepared.split.train):,} training and {len(prepared.split.test):,} test items in {sentences:,} "
            f"test sentences; {prepared.split.statement}.",
            f"Features: {prepared.features.policy.what} of the {prepared.features.policy.stack}, "
            f"{prepared.features.policy.pool} token of a place, standardised on the training items.",
            f"Means over {settings.seeds} seeds, which draw the control labels and the tenth of the training "
            "sentences that chooses the strength.",
        ]
        if strengths:
            lines.append(f"Chosen C by seed: {strengths}.")
        if prepared.unread:
            lines.append(
                f"{prepared.unread:,} items left out: {prepared.features.dropped:,} places have no token, "
                f"{prepared.features.cut:,} lie beyond the model's length."
            )
        return tuple(lines)

    def _items(self) -> TestItems:
        data, test = self.prepared.data, self.prepared.split.test
        return TestItems(
            names=tuple(data.sentences[s].name or f"sentence {s}" for s in data.sentence_of[test]),
            texts=tuple(data.text(i) for i in test),
            labels=tuple(data.labels[i] for i in test),
            classes=self.prepared.classes,
            predictions=np.stack([f.predictions[0] for f in self.fits]).astype(np.int32),
        )


def _over_seeds(values: Array) -> Estimate:
    """Mean over seeds with a normal interval of their spread; NaN bounds for one seed."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    mean = float(np.mean(values))
    return Estimate(
        value=mean,
        standard_error=error,
        low=mean - 1.96 * error,
        high=mean + 1.96 * error,
        n=len(values),
        method="normal, over seeds",
    )
