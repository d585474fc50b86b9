"""A direction between two groups of texts (difference of means), and how it fares when a model is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

from probes._data import Place
from probes.features.extract import extract, words_of
from workbench.characters import check_text
from workbench.data.tables import class_label, is_table, read_table
from workbench.errors import DataError
from workbench.models import LoadedModel
from workbench.shapes import Array
from workbench.statistics import Statistic, bootstrap
from workbench.terminal import counted

__all__ = ["DirectionFeatures", "TextGroups", "direction_features", "direction_statistics", "read_groups"]

_FEWEST = 4  # texts of a group: two to find the direction, two to test it
_RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class TextGroups:
    """Texts with one of two labels; ``second`` is true for those of the second label, ``held`` for those that test."""

    texts: tuple[str, ...]
    labels: tuple[str, str]
    second: Bool[Array, " text"]
    held: Bool[Array, " text"]

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[str], seed: int = 0) -> TextGroups:
        """Groups of which a half, drawn within each, is held out.

        Raises :class:`~workbench.errors.DataError` unless there are two labels of four texts or more each.
        """
        names = sorted(set(labels))
        counts = {name: list(labels).count(name) for name in names}
        if len(names) != 2 or min(counts.values()) < _FEWEST:
            found = ", ".join(f"{name} ({count})" for name, count in counts.items())
            raise DataError(
                f"a direction needs two labels of {_FEWEST} texts or more each; found {found or 'no text'}"
            )
        second = np.array([label == names[1] for label in labels])
        held, rng = np.zeros(len(texts), dtype=bool), np.random.default_rng(seed)
        for group in (False, True):
            members = rng.permutation(np.flatnonzero(second == group))
            held[members[: len(members) // 2]] = True
        return cls(tuple(texts), (names[0], names[1]), second, held)


def read_groups(path: Path | str, seed: int = 0) -> TextGroups:
    """A table with the columns ``text`` and ``label``.

    Raises :class:`~workbench.errors.DataError` for what is no such table, and as :meth:`TextGroups.of` does.
    """
    if not is_table(path):
        raise DataError(
            f"{path} is no table; give a .csv, .tsv, .jsonl, .json or .parquet with text and label"
        )
    texts, labels = [], []
    for where, row in read_table(path, needs=("text", "label")):
        text = check_text(str(row["text"]), where)
        if not text.strip():
            raise DataError(f"{where}: empty text")
        texts.append(text)
        labels.append(class_label(row["label"], where))
    return TextGroups.of(texts, labels, seed)


@dataclass(frozen=True, eq=False)
class DirectionFeatures:
    """The mean state of each text's tokens at each layer of a model, and whether a text fitted into the model."""

    values: Float[Array, "layer text width"]
    valid: Bool[Array, " text"]
    layers: tuple[int, ...]


def direction_features(model: LoadedModel, groups: TextGroups) -> DirectionFeatures:
    """One vector a text: the mean over its tokens of the residual stream at each layer, 0 being the embeddings."""
    words = words_of(groups.texts)
    places = [Place(number, 0, len(sentence.forms)) for number, sentence in enumerate(words)]
    found = extract(model, words, places, pool="mean")
    return DirectionFeatures(np.asarray(found.values, dtype=np.float64), found.valid, found.layers)


def direction_statistics(
    before: DirectionFeatures, after: DirectionFeatures, groups: TextGroups, seed: int = 0
) -> dict[str, Statistic]:
    """By layer: how well each model's own direction separates held-out texts, and how alike the two directions are.

    A direction is the mean of the second group's vectors minus that of the first's, over the texts that are not held
    out. "AUC before", "AUC after" and "change of AUC" are of projections on it (area under the ROC curve), paired by
    text; "cosine of directions" is between the two models'. Intervals are bootstraps over held-out texts; of cosines,
    over those that make the direction.

    Raises :class:`~workbench.errors.DataError` where too few texts fit into the models, or their widths differ.
    """
    valid = before.valid & after.valid
    for held in (False, True):
        for second in (False, True):
            if (valid & (groups.held == held) & (groups.second == second)).sum() < 2:
                raise DataError("fewer than two texts of a group fit into the models; give shorter texts")
    fit, test = valid & ~groups.held, valid & groups.held
    found: dict[str, list[Any]] = {name: [] for name in _NAMES}
    for old, new in zip(before.values, after.values, strict=True):
        scores = [x[test] @ _direction(x[fit], groups.second[fit]) for x in (old, new)]
        labels = groups.second[test]
        areas = [partial(_area, score, labels) for score in scores]
        places = np.arange(len(labels))
        draw = partial(bootstrap, seed=seed, resamples=_RESAMPLES, undefined="a resample has one group alone")
        found["AUC before"].append(draw(places, areas[0]))
        found["AUC after"].append(draw(places, areas[1]))
        found["change of AUC"].append(draw(places, partial(_difference, areas[1], areas[0])))
        if old.shape[1] == new.shape[1]:
            cosine = partial(_cosine, old[fit], new[fit], groups.second[fit])
            found["cosine of directions"].append(draw(np.arange(fit.sum()), cosine))
    out = counted(int((~valid).sum()), "text")
    note = (
        f"from {groups.labels[0]} to {groups.labels[1]}: {fit.sum()} texts make the direction, {test.sum()} test it"
        + (f"; {out} too long" if not valid.all() else "")
    )
    return {
        name: Statistic.of_estimates(estimates, before.layers, name=name, unit=unit, note=note)
        for (name, unit), estimates in zip(_NAMES.items(), found.values(), strict=True)
        if estimates
    }


_NAMES = {
    "AUC before": "AUC",
    "AUC after": "AUC",
    "change of AUC": "AUC",
    "cosine of directions": "cosine",
}


def _direction(vectors: Float[Array, "text width"], second: Bool[Array, " text"]) -> Float[Array, " width"]:
    found: Array = vectors[second].mean(0) - vectors[~second].mean(0)
    return found


def _area(
    scores: Float[Array, " text"], second: Bool[Array, " text"], places: Array, axis: int = -1
) -> Float[Array, " draw"]:
    """Area under the ROC curve of the texts at ``places`` (…, text): by ranks, ties halved (Hanley & McNeil 1982)."""
    drawn = places.astype(np.int64)
    ranks, labels = rankdata(scores[drawn], axis=-1), second[drawn]
    ones = labels.sum(-1)
    zeros = labels.shape[-1] - ones
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((ranks * labels).sum(-1) - ones * (ones + 1) / 2) / (ones * zeros)


def _difference(first: Any, second: Any, places: Array, axis: int = -1) -> Array:
    found: Array = first(places) - second(places)
    return found


def _cosine(
    before: Float[Array, "text width"],
    after: Float[Array, "text width"],
    second: Bool[Array, " text"],
    places: Array,
    axis: int = -1,
) -> Float[Array, " draw"]:
    """Cosine of the directions of two models, of the texts at ``places`` (…, text)."""
    weights = _weights(places.astype(np.int64).reshape(-1, places.shape[-1]), second)
    one, other = weights @ before, weights @ after
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (one * other).sum(-1) / np.sqrt((one**2).sum(-1) * (other**2).sum(-1))
    found: Array = cosines.reshape(places.shape[:-1])
    return found


def _weights(drawn: Int[Array, "draw text"], second: Bool[Array, " text"]) -> Float[Array, "draw text"]:
    """What each text counts for in the difference of means of each draw."""
    rows, size = drawn.shape
    flat = (np.arange(rows)[:, None] * size + drawn).ravel()
    counts = np.bincount(flat, minlength=rows * size).reshape(rows, size).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        ones, zeros = (counts * group / (counts * group).sum(1, keepdims=True) for group in (second, ~second))
    found: Array = ones - zeros
    return found
