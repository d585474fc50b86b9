"""From what two models gave to statistics by layer, with intervals over texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from probes._data import Place, Words
from probes.estimators.cka import cka_estimate
from probes.features import Features
from probes.features.extract import words_of
from probes.report import ProbeReport
from workbench.analysis.token_changes import TokenDivergence
from workbench.errors import DataError
from workbench.statistics import Statistic, bootstrap
from workbench.terminal import counted

__all__ = ["accuracy_of", "change_of_accuracy", "cka_statistics", "mean_divergence", "word_places"]


def word_places(texts: Sequence[str], limit: int) -> tuple[list[Words], list[Place]]:
    """The words of the texts, and as many of each, spread evenly, as ``limit`` allows (one at least).

    Without a text's first word, where it has more: decoders without a start token keep their attention sink there, a
    state so large (74 times as long as others, in the middle of smollm2-135m) that it would decide CKA alone.
    """
    words = words_of(texts)
    each = max(1, limit // len(words))
    places = []
    for number, sentence in enumerate(words):
        first, last = min(1, len(sentence.forms) - 1), len(sentence.forms) - 1
        chosen = np.unique(np.linspace(first, last, min(each, last - first + 1)).round().astype(int))
        places += [Place(number, int(word), int(word) + 1) for word in chosen]
    return words, places


def cka_statistics(
    before: Features, after: Features, places: Sequence[Place], seed: int
) -> tuple[Statistic, Statistic]:
    """CKA of each layer with itself over the same words, and that of words paired at random.

    Raises :class:`~workbench.errors.DataError` where both models read fewer than four words.
    """
    rows = np.flatnonzero(before.valid & after.valid)
    texts = np.array([place.sentence for place in places])[rows]
    if len(rows) < 4:
        raise DataError(f"{counted(len(rows), 'word')} that both models read; CKA needs 4 or more")
    found = [
        cka_estimate(before.layer(n)[rows], after.layer(n)[rows], texts, seed=seed) for n in before.layers
    ]
    note = f"linear, debiased, of {counted(len(rows), 'word')} in {counted(len(set(texts.tolist())), 'text')}"
    floor = Statistic(
        name="CKA of random pairs",
        unit="1 for equal geometry",
        values=np.array([one for _, one in found]),
        axes=("layer",),
        labels={"layer": before.layers},
        note=f"{note}; the words after training in random order",
    )
    estimates = [one for one, _ in found]
    unit = "1 for equal geometry"
    return Statistic.of_estimates(estimates, before.layers, name="CKA", unit=unit, note=note), floor


def mean_divergence(found: TokenDivergence, seed: int) -> Statistic:
    """The mean over tokens, without an axis."""
    estimate = found.mean(seed)
    return Statistic(
        name="KL",
        unit="nats a token",
        values=np.array(estimate.value),
        axes=(),
        standard_error=np.array(estimate.standard_error),
        low=np.array(estimate.low),
        high=np.array(estimate.high),
        note=f"KL(after || before), mean over {counted(len(found.tokens), 'token')} of {counted(found.texts, 'text')}",
    )


def accuracy_of(report: ProbeReport) -> Statistic:
    """The accuracy of the probe of each layer."""
    return Statistic.of_estimates(
        report.series["accuracy"],
        report.layers,
        name=f"accuracy of probes: {report.task}",
        unit="accuracy",
        note=f"{report.probe} probe; intervals clustered by sentence",
    )


def change_of_accuracy(before: ProbeReport, after: ProbeReport, seed: int) -> Statistic:
    """After minus before on the same test items, paired, with intervals clustered by sentence."""
    old, new = before.items, after.items
    assert old is not None
    assert new is not None
    right = [
        np.array([[one.classes[k] for k in row] for row in one.predictions]) == np.array(one.labels)
        for one in (old, new)
    ]
    moved = right[1].astype(float) - right[0]
    found = [bootstrap(row, seed=seed, clusters=np.array(old.names)) for row in moved]
    name = f"change of accuracy of probes: {before.task}"
    return Statistic.of_estimates(found, before.layers, name=name, unit="accuracy", note="paired by item")
