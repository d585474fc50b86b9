"""Probes over all layers at once: mixing weights, centre of gravity, expected layer, edge probing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tqdm.auto import tqdm

from probes._prepare import Prepared, item_matrix
from probes.conclusions import CAUSAL_CAVEAT, shown
from probes.controls import majority
from probes.estimators import EdgeProbe, ScalarMixProbe
from probes.estimators.scalar_mix import expected_layer
from probes.report import ProbeReport
from probes.settings import ProbeSettings
from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import bootstrap

__all__ = ["mix"]

# More items than this are thinned out evenly: all layers of all items are in memory at once.
_VALUES = 3 * 10**8
_RESAMPLES = 1000


def mix(prepared: Prepared, settings: ProbeSettings, progress: bool = False) -> ProbeReport:
    """Fit mixtures of all layers (for each seed, on resampled sentences) and of layers up to each.

    The centre of gravity's interval is over refits on bootstrap resamples of the training sentences; that of
    the expected layer over resamples of the test sentences.
    """
    layers = prepared.features.layers
    train, test = _thinned(prepared, len(layers), prepared.split.train), prepared.split.test
    test = _thinned(prepared, len(layers), test)
    x, x_test = (item_matrix(prepared.features, layers, prepared.data, rows) for rows in (train, test))
    y, y_test = prepared.codes[train], prepared.codes[test]
    probe = EdgeProbe if settings.probe == "edge" else ScalarMixProbe
    clusters = prepared.clusters(train)
    weights, centres, correct = [], [], []
    for seed in tqdm(range(settings.seeds), unit="refit", disable=not progress, leave=False):
        rows = _resampled(clusters, settings.seed + seed)
        fitted = probe(layers=layers, seed=seed).fit(x[rows], y[rows])
        weights.append(fitted.weights_)
        centres.append(fitted.center_of_gravity_)
        correct.append(fitted.predict(x_test) == y_test)
    cumulative = _cumulative(probe, (x, y), (x_test, y_test), layers, progress)
    test_clusters = prepared.clusters(test)
    series = _series(np.stack(weights), cumulative, test_clusters, settings)
    summary = {
        "center of gravity": _spread(np.array(centres)),
        "expected layer": _expected(cumulative, layers, test_clusters, settings.seed),
        "accuracy of the mixture": bootstrap(
            np.mean(correct, axis=0), seed=settings.seed, resamples=_RESAMPLES, clusters=test_clusters
        ),
    }
    guess = (majority(y, len(test)) == y_test).astype(float)
    floor = bootstrap(guess, seed=settings.seed, resamples=_RESAMPLES, clusters=test_clusters)
    return ProbeReport(
        model=prepared.features.model,
        task=settings.task,
        probe=settings.probe,
        metric="accuracy with layers up to this",
        layers=layers,
        series=series,
        baselines={"majority class": floor},
        summary=summary,
        conclusions=_conclusions(summary),
        stated=(
            f"Label: {prepared.data.about}.",
            f"{len(train):,} training and {len(test):,} test items; {prepared.split.statement}.",
            f"Mixtures refitted {settings.seeds} times on bootstrap resamples of the training sentences.",
        ),
    )


def _thinned(prepared: Prepared, layers: int, rows: Array) -> Array:
    """Whole sentences, as many as fit."""
    width = prepared.features.values.shape[2] * (1 if prepared.data.place_rows.shape[1] == 1 else 3)
    most = max(1000, _VALUES // (layers * width))
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


def _cumulative(
    probe: type[ScalarMixProbe],
    train: tuple[Array, Array],
    test: tuple[Array, Array],
    layers: tuple[int, ...],
    progress: bool,
) -> Array:
    """Correctness (layer, item) of probes that may use the layers up to each."""
    rows = [
        probe(layers=layers[: n + 1]).fit(train[0][:, : n + 1], train[1]).predict(test[0][:, : n + 1])
        == test[1]
        for n in tqdm(range(len(layers)), unit="layer", disable=not progress, leave=False)
    ]
    return np.stack(rows).astype(float)


def _series(
    weights: Array, cumulative: Array, clusters: Array, settings: ProbeSettings
) -> dict[str, tuple[Estimate, ...]]:
    return {
        "accuracy with layers up to this": tuple(
            bootstrap(row, seed=settings.seed, resamples=_RESAMPLES, clusters=clusters) for row in cumulative
        ),
        "mixing weight": tuple(replace(_spread(w), higher_is_better=None) for w in weights.T),
    }


def _spread(values: Array) -> Estimate:
    """Mean over refits on resampled sentences; their spread is the standard error (Efron & Tibshirani 1993)."""
    mean = float(values.mean())
    error = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    return Estimate(
        value=mean,
        standard_error=error,
        low=mean - 1.96 * error,
        high=mean + 1.96 * error,
        n=len(values),
        method="normal, refits on resampled training sentences",
        higher_is_better=None,
    )


def _expected(cumulative: Array, layers: tuple[int, ...], clusters: Array, seed: int) -> Estimate:
    """The expected layer with an interval over resamples of the test sentences."""
    names, codes = np.unique(clusters, return_inverse=True)
    sums = np.stack([np.bincount(codes, weights=row) for row in cumulative])  # (layer, sentence)
    counts = np.bincount(codes)
    draws = np.random.default_rng(seed).integers(len(names), size=(_RESAMPLES, len(names)))
    found = np.array([expected_layer(sums[:, d].sum(1) / counts[d].sum(), layers) for d in draws])
    values = found[np.isfinite(found)]
    enough = len(values) > len(found) / 2  # else the layers gain nothing that could be placed
    low, high = np.quantile(values, [0.025, 0.975]) if enough else (np.nan, np.nan)
    return Estimate(
        value=expected_layer(cumulative.mean(1), layers),
        standard_error=float(values.std(ddof=1)) if enough else float("nan"),
        low=float(low),
        high=float(high),
        n=len(names),
        method="percentile bootstrap over clusters",
        higher_is_better=None,
    )


def _conclusions(summary: dict[str, Estimate]) -> tuple[str, ...]:
    return (
        f"The mixture's centre of gravity is layer {shown(summary['center of gravity'])}, its expected layer "
        f"{shown(summary['expected layer'])}.",
        "Both say where a probe finds it easiest to read the property; compare tasks on one model, not models.",
        CAUSAL_CAVEAT,
    )
