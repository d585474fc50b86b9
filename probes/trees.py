"""The structural probe of every layer: how much of the syntax tree lies in the geometry of the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tqdm.auto import tqdm

from probes._checkpoints import Checkpointed, not_stored
from probes._data import Place, Unit
from probes.conclusions import CAUSAL_CAVEAT
from probes.estimators.structural import StructuralProbe, _spearman, tree_depths, tree_distances, uuas
from probes.features import Features, extract, with_random_weights
from probes.features.policy import resolve_pool
from probes.report import ProbeReport
from probes.settings import ProbeSettings
from probes.splits import held_out
from probes.tasks import Treebank, read_treebank
from workbench.errors import DataError, TaskError
from workbench.estimate import Estimate
from workbench.models import LoadedModel
from workbench.shapes import Array
from workbench.statistics import bootstrap

__all__ = ["probe_trees"]

_LENGTHS = (3, 50)  # of sentences, in words
_RESAMPLES = 1000
_PROBE_RANK = 64


@dataclass(frozen=True, eq=False)
class _Trees:
    """Heads of each sentence, words that count (no punctuation), and their rows in the feature store."""

    heads: tuple[tuple[int | None, ...], ...]
    words: tuple[tuple[int, ...], ...]
    rows: tuple[Array, ...]


def probe_trees(
    model: LoadedModel,
    settings: ProbeSettings,
    checkpointed: Checkpointed = not_stored,
    progress: bool = False,
) -> ProbeReport:
    """Fit a distance and a depth probe of each layer; UUAS and Spearman on test sentences, with controls.

    The controls are the chain (each word next to its neighbour) and the same model with random weights.
    """
    bank, test_from = _banks(settings)
    usable, places = _usable(bank)
    found = _features(model, settings, bank, places, progress)
    blank = None
    if settings.random_weights:
        blank = _features(with_random_weights(model, settings.seed), settings, bank, places, progress)
    trees, origin = _with_vectors(bank, usable, places, found)
    test = origin >= test_from if test_from else _drawn(bank, origin, settings)
    if test.all() or not test.any():
        raise TaskError(
            f"too few usable sentences ({len(test)}) to part for training and testing; use more data"
        )

    def scores(features: Features, name: str) -> list[_Scores]:
        bar = tqdm(features.layers, unit="layer", desc=name, disable=not progress, leave=False)
        return [
            _Scores(**checkpointed(f"{name} {n}", lambda n=n: vars(_layer(features, n, trees, test))))  # type: ignore[misc]
            for n in bar
        ]

    blanks = [] if blank is None else scores(blank, "random layer")
    return _report(
        found, settings, scores(found, "layer"), blanks, _chain(trees, test), len(test) - int(test.sum())
    )


def _features(
    model: LoadedModel, settings: ProbeSettings, bank: Treebank, places: list[Place], progress: bool
) -> Features:
    return extract(
        model,
        bank.words,
        places,
        layers="all" if settings.layers is None else settings.layers,
        pool=resolve_pool(settings.pool, model, Unit.WORD),
        what=settings.what,
        stack=settings.stack,
        progress=progress,
    )


def _drawn(bank: Treebank, origin: Array, settings: ProbeSettings) -> Array:
    """Which sentences are kept for testing: drawn one by one, or by whole documents."""
    if settings.split == "type":
        raise TaskError("a tree has words of many types; use --split sentence or document with this probe")
    documents = np.array([bank.words[n].document for n in origin])
    if settings.split == "document" and len(np.unique(documents)) < 2:
        raise TaskError(f"{bank.source} names no two documents; use --split sentence")
    groups = documents if settings.split == "document" else origin
    return held_out(groups, settings.seed, settings.test_share)


def _banks(settings: ProbeSettings) -> tuple[Treebank, int]:
    """All trees, and the number of the first test sentence (0: to be drawn)."""
    bank = read_treebank(settings.data, settings.limit, settings.seed)
    if settings.train is None:
        return bank, 0
    first = read_treebank(settings.train, settings.limit, settings.seed)
    both = Treebank(first.trees + bank.trees, first.words + bank.words, bank.name, bank.source)
    return both, len(first.trees)


def _usable(bank: Treebank) -> tuple[list[int], list[Place]]:
    """Sentences with one root and a fitting number of words, and all of their words."""
    keep = [
        n
        for n, tree in enumerate(bank.trees)
        if _LENGTHS[0] <= len(tree.words) <= _LENGTHS[1] and sum(w.head is None for w in tree.words) == 1
    ]
    if not keep:
        raise DataError(f"{bank.source} has no tree of {_LENGTHS[0]} to {_LENGTHS[1]} words")
    return keep, [Place(n, w, w + 1) for n in keep for w in range(len(bank.trees[n].words))]


def _with_vectors(
    bank: Treebank, keep: list[int], places: list[Place], features: Features
) -> tuple[_Trees, Array]:
    """The sentences whose every word has a vector, and their numbers in the treebank."""
    first = np.cumsum([0, *(len(bank.trees[n].words) for n in keep)])
    chosen = [k for k in range(len(keep)) if features.valid[first[k] : first[k + 1]].all()]
    trees = _Trees(
        tuple(tuple(w.head for w in bank.trees[keep[k]].words) for k in chosen),
        tuple(tuple(i for i, w in enumerate(bank.trees[keep[k]].words) if w.upos != "PUNCT") for k in chosen),
        tuple(np.arange(first[k], first[k + 1]) for k in chosen),
    )
    return trees, np.array([keep[k] for k in chosen])


@dataclass(frozen=True, eq=False)
class _Scores:
    """Of each test sentence: arcs found, arcs there are, and rank correlations."""

    hits: Array
    arcs: Array
    distance: Array
    depth: Array


def _layer(features: Features, layer: int, trees: _Trees, test: Array) -> _Scores:
    matrix = features.layer(layer)
    x = [np.asarray(matrix[rows]) for rows in trees.rows]
    distances = [tree_distances(heads) for heads in trees.heads]
    depths = [tree_depths(heads) for heads in trees.heads]
    train, held = np.flatnonzero(~test), np.flatnonzero(test)

    def fitted(target: str, wanted: Sequence[Array]) -> list[Array]:
        probe = StructuralProbe(target=target, rank=_PROBE_RANK)
        probe.fit([x[i] for i in train], [wanted[int(i)] for i in train])
        return probe.predict([x[i] for i in held])

    predicted, by_depth = fitted("distance", distances), fitted("depth", depths)
    arcs = [uuas(p, trees.heads[i], trees.words[i]) for p, i in zip(predicted, held, strict=True)]
    return _Scores(
        np.array([a for a, _ in arcs], float),
        np.array([b for _, b in arcs], float),
        np.array([_spearman(p, distances[i]) for p, i in zip(predicted, held, strict=True)]),
        np.array([_spearman(p, depths[i]) for p, i in zip(by_depth, held, strict=True)]),
    )


def _chain(trees: _Trees, test: Array) -> _Scores:
    """The baseline in which each word is tied to the next."""
    held = np.flatnonzero(test)
    found = []
    for i in held:
        position = np.arange(len(trees.heads[i]), dtype=float)
        found.append(uuas(np.abs(position[:, None] - position), trees.heads[i], trees.words[i]))
    empty = np.full(len(held), np.nan)
    return _Scores(
        np.array([a for a, _ in found], float), np.array([b for _, b in found], float), empty, empty
    )


def _ratio(scores: _Scores, seed: int) -> Estimate:
    """Arcs found over arcs, with an interval over sentences."""
    draws = np.random.default_rng(seed).integers(len(scores.hits), size=(_RESAMPLES, len(scores.hits)))
    values = scores.hits[draws].sum(1) / np.maximum(scores.arcs[draws].sum(1), 1)
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(
        value=float(scores.hits.sum() / max(scores.arcs.sum(), 1)),
        standard_error=float(values.std(ddof=1)),
        low=float(low),
        high=float(high),
        n=len(scores.hits),
    )


def _mean(values: Array, seed: int) -> Estimate:
    return bootstrap(values[np.isfinite(values)], seed=seed, resamples=_RESAMPLES)


def _report(
    features: Features,
    settings: ProbeSettings,
    scores: list[_Scores],
    blanks: list[_Scores],
    chain: _Scores,
    trained: int,
) -> ProbeReport:
    seed = settings.seed
    series = {
        "UUAS": tuple(_ratio(s, seed) for s in scores),
        "distance Spearman": tuple(_mean(s.distance, seed) for s in scores),
        "depth Spearman": tuple(_mean(s.depth, seed) for s in scores),
    }
    if blanks:
        series["UUAS with random weights"] = tuple(_ratio(s, seed) for s in blanks)
    baselines = {"chain of neighbours": _ratio(chain, seed)}
    best = max(range(len(scores)), key=lambda i: series["UUAS"][i].value)
    above = [baselines["chain of neighbours"].high] + [
        e.high for e in series.get("UUAS with random weights", ())
    ]
    verdict = (
        "Its interval is above those of the chain and of random weights: training put tree distance into this geometry."
        if series["UUAS"][best].low > max(above)
        else "Its interval reaches that of a baseline: no more than word order or the architecture is established."
    )
    return ProbeReport(
        model=features.model,
        task="syntax trees",
        probe="structural",
        metric="UUAS",
        layers=features.layers,
        series=series,
        baselines=baselines,
        conclusions=(
            f"UUAS is highest at layer {features.layers[best]}: {series['UUAS'][best].text(3)}.",
            verdict,
            CAUSAL_CAVEAT,
        ),
        stated=(
            f"Rank {_PROBE_RANK}; {trained:,} training and {len(chain.hits):,} test sentences of {_LENGTHS[0]} to "
            f"{_LENGTHS[1]} words; punctuation is no word of the tree.",
        ),
    )
