"""The default experiment: a classifier of each layer with all of its controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from jaxtyping import Bool, Int
from tqdm.auto import tqdm

from probes._checkpoints import Arrays, Checkpointed
from probes._fit import CURVE, LayerFit, fit_layer, fit_static
from probes._prepare import Prepared
from probes.conclusions import classification_conclusions
from probes.controls import majority, permutation_p, word_identity
from probes.report import ProbeReport, TestItems
from probes.settings import ProbeSettings
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import bootstrap, mean_estimate, student_interval
from workbench.terminal import counted

__all__ = ["baselines", "classify", "p_values", "seen_share", "test_items"]

_RESAMPLES = 1000

# How an experiment was made, in words.
_POOLED = {
    "first": "the first token of a place",
    "last": "the last token of a place",
    "mean": "the mean of a place's tokens",
    "cls": "the text's first token",
}
_STANDARD = "standardised on the training items"
_CHOICE = "each draws control labels and the tenth of the training sentences that chooses C; then all are trained on"
_LABELS = "each draws control labels, and what the probe draws"
_SCALED = dict.fromkeys(("linear", "mdl", "ridge", "mlp"), _STANDARD) | {"knn": "centred, compared by cosine"}
_DRAWN = dict.fromkeys(("linear", "mdl", "ridge"), _CHOICE) | {
    "knn": "each draws control labels",
    "mlp": (
        "each draws control labels, first weights and the tenth of the items that chooses how long to train, "
        "then on all of them"
    ),
}


def classify(
    prepared: Prepared, settings: ProbeSettings, checkpointed: Checkpointed, progress: bool = False
) -> ProbeReport:
    """Fit every layer and put the numbers together."""
    bar = tqdm(prepared.features.layers, unit="layer", disable=not progress, leave=False)
    fits = [LayerFit.of(checkpointed(f"layer {n}", partial(_arrays, prepared, n, settings))) for n in bar]
    return _Numbers(prepared, settings, fits).report()


def _arrays(prepared: Prepared, layer: int, settings: ProbeSettings) -> Arrays:
    return fit_layer(prepared, layer, settings).arrays()


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
        self.baselines = baselines(prepared, settings, prepared.split.train, test)
        # correctness (layer, item) of the probes on random weights, of one seed; None without that control
        blank = [f.random[0] == self.truth for f in fits if f.random is not None]
        self.random = np.stack(blank).astype(float) if blank else None

    def report(self) -> ProbeReport:
        """All of it as a report."""
        layers = self.prepared.features.layers
        series = self._series()
        floors = {name: self.share(values.astype(float)) for name, values in self.baselines.items()}
        found = self._p_values()
        sentences = len(np.unique(self.clusters))
        return ProbeReport(
            model=self.prepared.features.model,
            task=self.settings.task,
            probe=self.settings.probe,
            metric="accuracy",
            layers=layers,
            series=series,
            baselines=floors,
            summary=self._summary(),
            p_values=found,
            conclusions=classification_conclusions(
                layers, series, floors, found, self._indistinct(), sentences, self._seen()
            ),
            stated=self._stated(sentences),
            items=test_items(
                self.prepared, self.prepared.split.test, np.stack([f.predictions[0] for f in self.fits])
            ),
        )

    def share(self, values: Array) -> Estimate:
        """Share of test items that are right, with an interval clustered by sentence."""
        return mean_estimate(values, seed=self.settings.seed, resamples=_RESAMPLES, clusters=self.clusters)

    def difference(self, values: Array) -> Estimate:
        """Mean over test items of a difference, with an interval clustered by sentence."""
        return bootstrap(values, seed=self.settings.seed, resamples=_RESAMPLES, clusters=self.clusters)

    def _series(self) -> dict[str, tuple[Estimate, ...]]:
        found = {
            "accuracy": self.accuracy,
            "control task": self.control,
        }
        if self.random is not None:
            found["random weights"] = self.random
        series = {name: tuple(self.share(row) for row in rows) for name, rows in found.items()}
        series["selectivity"] = tuple(self.difference(row) for row in self.accuracy - self.control)
        if self.fits[0].bits is not None:
            bits = np.stack([f.bits for f in self.fits if f.bits is not None])  # (layer, seed, 3)
            series["compression"] = tuple(_over_seeds(b[:, 2] / b[:, 0]) for b in bits)
            series["compression of the control task"] = tuple(_over_seeds(b[:, 2] / b[:, 1]) for b in bits)
        return series

    def _seen(self) -> float:
        return seen_share(self.prepared, self.prepared.split.train, self.prepared.split.test)

    def _best(self) -> int:
        return int(self.accuracy.mean(1).argmax())

    def _p_values(self) -> dict[str, float]:
        """Tests of the best layer against each baseline and the best layer of random weights."""
        others = dict(self.baselines)
        if self.random is not None:
            others["random weights"] = self.random[int(self.random.mean(1).argmax())]
        return p_values(self.accuracy[self._best()], others, self.clusters, self.settings.seed)

    def _indistinct(self) -> list[int]:
        """Layers whose difference from the best has an interval that holds 0."""
        best = self.accuracy[self._best()]
        layers = self.prepared.features.layers
        found = []
        for number, row in zip(layers, self.accuracy, strict=True):
            difference = self.difference(best - row)
            if not difference.low > 0:
                found.append(number)
        return found

    def _summary(self) -> dict[str, Estimate]:
        """The learning curve of the best layer."""
        curve = self.fits[self._best()].curve
        if curve is None:
            return {}
        return {
            f"accuracy with {share:.0%} of the training sentences": self.share(
                (row == self.truth).astype(float)
            )
            for share, row in zip(CURVE, curve, strict=True)
        }

    def _drawn(self) -> str:
        """What a seed draws."""
        found = _DRAWN.get(self.settings.probe, _LABELS)
        return (
            "each draws control labels" if found is _CHOICE and len(self.settings.strengths) == 1 else found
        )

    def _stated(self, sentences: int) -> tuple[str, ...]:
        prepared, settings = self.prepared, self.settings
        strengths = "; ".join(
            f"layer {n}: {', '.join(f'{c:g}' for c in f.strengths)}"
            for n, f in zip(prepared.features.layers, self.fits, strict=True)
            if np.isfinite(f.strengths).all()
        )
        lines = [
            f"Label: {prepared.data.about}; {counted(len(prepared.classes), 'class')}.",
            f"{len(prepared.split.train):,} training and {counted(len(prepared.split.test), 'test item')} in "
            f"{counted(sentences, 'test sentence')}; {prepared.split.statement}.",
            f"Features: {prepared.features.policy.what} of the {prepared.features.policy.stack}, "
            f"{_POOLED[prepared.features.policy.pool]}, {_SCALED.get(settings.probe, 'as the probe takes them')}.",
            f"Means over {counted(settings.seeds, 'seed')}: {self._drawn()}.",
        ]
        if strengths:
            lines.append(f"Chosen C by seed: {strengths}.")
        unfinished = sum(int(f.unfinished.sum()) for f in self.fits if f.unfinished is not None)
        if unfinished:
            lines.append(f"Stopped above the least loss: {counted(unfinished, 'regression')}.")
        if prepared.unread:
            lines.append(
                f"{counted(prepared.unread, 'item')} left out: "
                f"{counted(prepared.features.dropped, 'place')} without a token, "
                f"{prepared.features.truncated:,} beyond the model's length."
            )
        return tuple(lines)


def _over_seeds(values: Array) -> Estimate:
    """Mean over seeds with an interval of their spread."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return student_interval(float(np.mean(values)), error, len(values), "Student's t, over seeds")


def baselines(
    prepared: Prepared, settings: ProbeSettings, train: Array, test: Array
) -> dict[str, Bool[Array, " test"]]:
    """Whether each test item is right under what needs no layer: majority class, word identity, static embedding."""
    codes, truth = prepared.codes[train], prepared.codes[test]
    found = {
        "majority class": majority(codes, len(test)),
        "word identity": word_identity(prepared.types(train), codes, prepared.types(test)),
        "static embedding": fit_static(prepared, settings, train, test),
    }
    return {name: guess == truth for name, guess in found.items()}


def seen_share(prepared: Prepared, train: Array, test: Array) -> float:
    """The share of test items whose word type occurs in the training items."""
    known = set(prepared.types(train))
    return float(np.mean([name in known for name in prepared.types(test)]))


def p_values(best: Array, others: Mapping[str, Array], clusters: Array, seed: int) -> dict[str, float]:
    """Paired permutation tests of the best probe's correctness (item,) against each comparison's."""
    return {name: permutation_p(best - row, clusters, seed) for name, row in others.items()}


def test_items(prepared: Prepared, test: Array, predictions: Int[Array, "layer item"]) -> TestItems:
    """The test items with what was predicted of them."""
    data = prepared.data
    return TestItems(
        names=tuple(data.sentences[s].name or f"sentence {s}" for s in data.sentence_of[test]),
        texts=tuple(data.text(i) for i in test),
        labels=tuple(data.labels[i] for i in test),
        classes=prepared.classes,
        predictions=np.ascontiguousarray(predictions, dtype=np.int32),
    )
