"""Fit a probe of each kind on one layer, for all labellings, seeds and strengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probes._prepare import Prepared, item_rows
from probes.estimators import online_code
from probes.features import Features
from probes.settings import PROBES, ProbeSettings, Reads
from probes.solvers import Logistic, Problems, RidgeSolution, Rows, solve_logistic, solve_ridge
from probes.splits import held_out
from workbench.shapes import Array

__all__ = [
    "CURVE",
    "Labels",
    "LayerFit",
    "Predicted",
    "fit_layer",
    "fit_static",
    "labellings",
    "layer_rows",
    "one_layer",
]

# Parts of the training sentences in the learning curve; the whole is the experiment itself.
CURVE = (0.0625, 0.125, 0.25, 0.5)


@dataclass(frozen=True, eq=False)
class LayerFit:
    """What a layer's probes predicted for the test items. Rows of predictions are seeds."""

    predictions: Int[Array, "seed item"]
    control: Int[Array, "seed item"]
    strengths: Float[Array, " seed"]  # chosen C of each seed; NaN where the probe has none
    random: Int[Array, "one item"] | None = None  # on the features of random weights
    curve: Float[Array, "fraction item"] | None = None  # predictions with parts of the training data
    bits: Float[Array, "seed three"] | None = None  # online code of labels and control labels, uniform code
    unfinished: Int[Array, " one"] | None = None  # regressions that stopped before the tolerance

    def arrays(self) -> dict[str, Array]:
        """By field name, without what is absent."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: np.ascontiguousarray(value) for name, value in found.items() if value is not None}

    @classmethod
    def of(cls, arrays: dict[str, Any]) -> LayerFit:
        """The inverse of :meth:`arrays`."""
        return cls(**arrays)


@dataclass(frozen=True, eq=False)
class Labels:
    """P labellings of the training items.

    A strength is chosen on ``held`` by training on ``used``; the probe is then trained on both. Without ``held``
    nothing is chosen.
    """

    targets: Int[Array, "problem item"]
    used: Array
    held: Array
    classes: int
    seeds: tuple[int, ...]

    @property
    def all_rows(self) -> Array:
        """What the probe is trained on once its strength is chosen (problem, item)."""
        found: Array = self.used | self.held
        return found


@dataclass(frozen=True, eq=False)
class Predicted:
    """Classes of the test items (problem, item) and the strength chosen for each labelling.

    ``unfinished`` counts regressions, of all strengths, that stopped above the least loss.
    """

    classes: Int[Array, "problem item"]
    strengths: Float[Array, " problem"]
    unfinished: int = 0


Fitter = Callable[[Rows, Rows, Labels, ProbeSettings], Predicted]


def linear(train: Rows, test: Rows, labels: Labels, settings: ProbeSettings) -> Predicted:
    """Logistic regressions at every strength, side by side; the best on held-out items is refitted on all of them."""
    strengths, unfinished = np.asarray(settings.strengths), 0
    chosen = np.zeros(len(labels.targets), dtype=int)
    if labels.held.any():
        tried = solve_logistic(train, _tried(labels, strengths))
        predicted = tried.predict(train).reshape(len(labels.targets), len(strengths), -1)
        chosen, unfinished = _best(predicted, labels), _unfinished(tried)
    final = Problems(
        labels.targets, labels.all_rows.astype(np.float32), 1 / strengths[chosen], labels.classes
    )
    solution = solve_logistic(train, final)
    return Predicted(solution.predict(test), strengths[chosen], unfinished + _unfinished(solution))


def _tried(labels: Labels, strengths: Array) -> Problems:
    """Each labelling at each strength, on the rows that choose none."""
    count = len(strengths)
    return Problems(
        np.repeat(labels.targets, count, axis=0),
        np.repeat(labels.used, count, axis=0).astype(np.float32),
        np.tile(1 / strengths, len(labels.targets)),
        labels.classes,
    )


def _unfinished(solution: Logistic) -> int:
    return int(np.count_nonzero(~solution.converged))


def ridge(train: Rows, test: Rows, labels: Labels, settings: ProbeSettings) -> Predicted:
    """Ridge regressions to one-hot labels at every strength from one eigendecomposition a labelling, then refitted."""
    strengths = np.asarray(settings.strengths)
    chosen = np.zeros(len(labels.targets), dtype=int)

    def solved(p: int, weights: Array, penalties: Array) -> RidgeSolution:
        targets = np.eye(labels.classes)[labels.targets[p]]
        return solve_ridge(train, targets, weights.astype(float), list(penalties))

    if labels.held.any():
        shape = (len(labels.targets), len(strengths), train.count)
        predicted = np.empty(shape, dtype=np.int64)
        for p, used in enumerate(labels.used):
            predicted[p] = solved(p, used, 1 / strengths).predict(train).argmax(-1).cpu().numpy()
        chosen = _best(predicted, labels)
    final = [
        solved(p, rows, 1 / strengths[chosen[p : p + 1]]).predict(test)[0].argmax(-1).cpu().numpy()
        for p, rows in enumerate(labels.all_rows)
    ]
    return Predicted(np.stack(final), strengths[chosen])


def _best(predicted: Int[Array, "problem strength item"], labels: Labels) -> Int[Array, " problem"]:
    """For each labelling the strength with the most correct held-out items, the weakest probe on a tie."""
    correct = (predicted == labels.targets[:, None]) & labels.held[:, None]
    found: Array = correct.sum(2).argmax(1)
    return found


# Solved side by side for all labellings and strengths.
_TOGETHER: dict[str, Fitter] = {"linear": linear, "mdl": linear, "ridge": ridge}


def one_layer(kind: str) -> bool:
    """Whether probes of this kind read one layer at a time."""
    return kind in _TOGETHER or (kind in PROBES and PROBES.get(kind).reads is Reads.LAYER)


def _fitter(kind: str) -> Fitter:
    return _TOGETHER.get(kind) or partial(_one_by_one, PROBES.get(kind).make)


def _one_by_one(
    make: Callable[[], Any], train: Rows, test: Rows, labels: Labels, settings: ProbeSettings
) -> Predicted:
    """An estimator for each labelling, with its seed if it takes one."""
    x, x_test = train.read(0, train.count), test.read(0, test.count)
    found = []
    for targets, used, seed in zip(labels.targets, labels.used, labels.seeds, strict=True):
        rows, estimator = used > 0, make()
        if "seed" in estimator.get_params():
            estimator.set_params(seed=seed)
        found.append(estimator.fit(x[rows], targets[rows]).predict(x_test))
    return Predicted(np.stack(found), np.full(len(found), np.nan))


def fit_layer(prepared: Prepared, layer: int, settings: ProbeSettings) -> LayerFit:
    """All probes of one layer: labels and control labels at each seed, parts of the data, random weights."""
    train, test = layer_rows(prepared, prepared.features, layer)
    found = _fitter(settings.probe)(train, test, labellings(prepared, settings), settings)
    count = settings.seeds
    fit = LayerFit(found.classes[:count], found.classes[count:], found.strengths[:count])
    if settings.probe in _TOGETHER:
        curve = _curve(prepared, train, test, settings, float(fit.strengths[0]))
        fit = replace(fit, curve=curve, unfinished=np.array([found.unfinished]))
    if settings.probe == "mdl":
        fit = replace(fit, bits=_bits(prepared, train, settings))
    if prepared.random is not None:
        fit = replace(fit, random=_single(prepared, prepared.random, layer, settings))
    return fit


def labellings(prepared: Prepared, settings: ProbeSettings) -> Labels:
    """The true labels for each seed, then each seed's control labels."""
    seeds = list(range(settings.seeds))
    true = _labels(prepared, [prepared.train_codes for _ in seeds], seeds, settings)
    control = _labels(prepared, [prepared.control[s, prepared.split.train] for s in seeds], seeds, settings)
    return replace(
        true,
        targets=np.concatenate([true.targets, control.targets]),
        used=np.concatenate([true.used, control.used]),
        held=np.concatenate([true.held, control.held]),
        seeds=true.seeds + control.seeds,
    )


def fit_static(prepared: Prepared, settings: ProbeSettings, train: Array, test: Array) -> Array:
    """Predictions (item,) of the items ``test`` by a probe on static embeddings; a linear one for mixtures."""
    split = replace(prepared.split, train=train, test=test)
    kind = settings.probe if one_layer(settings.probe) else "linear"
    part = replace(prepared, split=split)
    found: Array = _single(part, prepared.features, None, replace(settings, probe=kind))[0]
    return found


def _single(prepared: Prepared, features: Features, layer: int | None, settings: ProbeSettings) -> Array:
    train, test = layer_rows(prepared, features, layer)
    labels = _labels(prepared, [prepared.train_codes], [0], settings)
    return _fitter(settings.probe)(train, test, labels, settings).classes


def layer_rows(prepared: Prepared, features: Features, layer: int | None) -> tuple[Rows, Rows]:
    """Vectors of the training and the test items; ``layer`` is ``None`` for static embeddings."""
    data, split, device = prepared.data, prepared.split, prepared.device
    train = item_rows(features, layer, data, split.train, device=device)
    return train, item_rows(features, layer, data, split.test, train.scaling, device)


def _labels(prepared: Prepared, targets: list[Array], seeds: list[int], settings: ProbeSettings) -> Labels:
    clusters = prepared.clusters(prepared.split.train)
    choose = len(settings.strengths) > 1 and settings.probe in _TOGETHER
    held = [held_out(clusters, settings.seed + s) & choose for s in seeds]
    return Labels(
        np.stack(targets), np.stack([~h for h in held]), np.stack(held), len(prepared.classes), tuple(seeds)
    )


def _curve(
    prepared: Prepared, train: Rows, test: Rows, settings: ProbeSettings, strength: float
) -> Int[Array, "fraction item"]:
    """Predictions after training on the first parts of the sentences in a drawn order, at one strength."""
    clusters = prepared.clusters(prepared.split.train)
    used = np.stack([held_out(clusters, settings.seed, share) for share in CURVE])
    labels = Labels(
        np.repeat(prepared.train_codes[None], len(CURVE), axis=0),
        used,
        np.zeros_like(used),
        len(prepared.classes),
        (0,) * len(CURVE),
    )
    return _fitter(settings.probe)(train, test, labels, replace(settings, strengths=(strength,))).classes


def _bits(prepared: Prepared, train: Rows, settings: ProbeSettings) -> Float[Array, "seed three"]:
    """Online code length of the labels and control labels, and the uniform one, in bits, for each seed."""
    rows = []
    for s in range(settings.seeds):
        targets = np.stack([prepared.train_codes, prepared.control[s, prepared.split.train]])
        clusters = prepared.clusters(prepared.split.train)
        codes = online_code(train, targets, len(prepared.classes), clusters=clusters, seed=settings.seed + s)
        rows.append([codes[0].bits, codes[1].bits, codes[0].uniform_bits])
    return np.array(rows)
