"""Where a run is weak: its metric on slices of items, and the worst slices, corrected for the search."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, RunError, did_you_mean
from workbench.estimate import Estimate
from workbench.evaluate.compare_items import ItemScores, item_scores, task_examples
from workbench.runs import Run, reads_runs
from workbench.shapes import Array
from workbench.statistics import bootstrap, mean_measure, perplexity_measure, wilson
from workbench.terminal import counted

__all__ = ["Slice", "Slices", "one_slice", "slice_features", "slices", "text_columns", "worst_slices"]

_NOT_TEXT = {
    *("id", "task", "target", "gold", "label", "answer", "predicted", "prediction", "cluster", "template"),
    *(
        "paradigm",
        "phenomenon",
        "group",
        "kind",
        "test",
        "capability",
        "prompt",
        "shots",
        "generated",
        "output",
    ),
}


_LABELS = ("label", "gold")


_CATEGORIES = ("phenomenon", "paradigm", "kind", "bias_type", "subject", "genre", "category", "relation")


_PAIR = ("first_text", "second_text")


_MOST_LABELS = 30


_WORD = re.compile(r"\w+")


def slice_features(examples: pd.DataFrame) -> pd.DataFrame:
    """One column a feature that the examples have, in words: each item's third by it, or its label.

    ``length`` counts the words of the text, of a pair those of its first text; ``frequency`` is the mean logarithm
    of how often an item's words occur in the texts of all items; ``overlap`` the share of the second text's words that
    the first has too; ``perplexity`` is exp of the mean loss of a token. A feature that is equal for all items is left
    out.
    """
    texts = text_columns(examples)
    words = {name: [_words(text) for text in examples[name]] for name in texts}
    joined = [[word for name in texts for word in words[name][i]] for i in range(len(examples))]
    found: dict[str, Any] = {}
    if texts:
        found["length"] = _thirds(np.array([len(item) for item in words[texts[0]]], float), "words")
        found["frequency"] = _thirds(_frequency(joined), "mean log count")
    if len(texts) > 1:
        pairs = zip(words[texts[0]], words[texts[1]], strict=True)
        found["overlap"] = _thirds(np.array([_overlap(a, b) for a, b in pairs]), "of the words")
    if {"log_probability", "tokens"} <= set(examples):
        tokens = np.maximum(examples["tokens"].to_numpy(float), 1)
        with np.errstate(over="ignore"):
            found["perplexity"] = _thirds(np.exp(-examples["log_probability"].to_numpy(float) / tokens), "")
    for name in _labels(examples):
        found[name if name in _CATEGORIES else "label"] = examples[name].astype(str).to_numpy()
    frame = pd.DataFrame(found, index=examples.index)
    return frame[[name for name in frame if frame[name].nunique() > 1]]


def text_columns(examples: pd.DataFrame) -> list[str]:
    """The columns that hold what the model read; of a pair its two texts, not the prompt made of them."""
    if set(_PAIR) <= set(examples) and examples[list(_PAIR)].notna().all(axis=None):
        return list(_PAIR)
    return [
        str(name)
        for name in examples
        if name not in _NOT_TEXT
        and all(isinstance(value, str) for value in examples[name])
        and np.mean([value.count(" ") for value in examples[name]] or [0]) >= 1
    ]


def _labels(examples: pd.DataFrame) -> list[str]:
    label = next((name for name in _LABELS if name in examples), None)
    names = [*([label] if label else []), *(name for name in _CATEGORIES if name in examples)]
    return [name for name in names if 1 < examples[name].astype(str).nunique() <= _MOST_LABELS]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _frequency(items: list[list[str]]) -> Array:
    counts = Counter(word for item in items for word in item)
    return np.array([np.mean([np.log(counts[word]) for word in item]) if item else 0.0 for item in items])


def _overlap(first: list[str], second: list[str]) -> float:
    known = set(first)
    return float(np.mean([word in known for word in second])) if second else 0.0


def _thirds(values: Array, unit: str) -> Array:
    """Each item's third, named by the smallest and largest value in it; NaN where the value is not finite."""
    finite = np.isfinite(values)
    names = np.full(len(values), np.nan, dtype=object)
    if not finite.any():
        return names
    edges = np.unique(np.quantile(values[finite], [0, 1 / 3, 2 / 3, 1]))
    places = np.clip(np.searchsorted(edges, values[finite], side="left"), 1, max(len(edges) - 1, 1))
    part = values[finite]
    labels = {
        p: f"{part[places == p].min():.3g} to {part[places == p].max():.3g} {unit}".strip()
        for p in set(places)
    }
    names[finite] = [labels[p] for p in places]
    return names


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One slice: its ``name`` ("length = 3 to 9 words"), its metric, and how far that is from all other items.

    ``difference`` is the slice's mean minus that of the rest, in the unit of the item scores, positive where the
    slice is better; ``p_value`` of a permutation of the items, corrected for every slice looked at, and for both
    directions where both are reported.
    """

    name: str
    n: int
    estimate: Estimate
    difference: float
    p_value: float = float("nan")

    def to_frame_row(self) -> dict[str, object]:
        """Flat, for a table."""
        e = self.estimate
        row = {"slice": self.name, "n": self.n, "value": e.value, "low": e.low, "high": e.high}
        return {**row, "difference": self.difference, "p": self.p_value, "undefined": e.undefined or ""}


class Slices(tuple[Slice, ...]):
    """Slices of one run, in the order of the question: as found, or the worst first."""

    def to_frame(self) -> pd.DataFrame:
        """One row a slice: its name, items, metric with interval, difference from the rest, p-value."""
        return pd.DataFrame([s.to_frame_row() for s in self])

    def __repr__(self) -> str:
        return (
            f"<{counted(len(self), 'slice')}: " + "; ".join(f"{s.name} {s.estimate}" for s in self[:3]) + ">"
        )


@reads_runs
def slices(
    run: Run,
    task: str | None = None,
    metric: str = "accuracy",
    *,
    by: str | None = None,
    seed: int = 0,
    permutations: int = 1000,
) -> Slices:
    """The metric on every slice by length, label, frequency, overlap, perplexity (or ``by`` one, or any column).

    ``task`` may be left out where the run has one. Raises :class:`~workbench.errors.RunError` for an unknown feature,
    or a metric that is no mean over items.
    """
    scores, features = _material(run, task, metric, by)
    masks = _masks(features, depth=1, smallest=1)
    if not masks:
        return Slices()
    found = [_slice(name, mask, scores, seed) for name, mask in masks.items()]
    members = np.stack(list(masks.values()))
    p_values = _search_corrected(_goodness(scores), members, seed, permutations, either=True)
    return Slices(replace(s, p_value=float(p)) for s, p in zip(found, p_values, strict=True))


@reads_runs
def one_slice(run: Run, task: str, metric: str, chosen: str, *, seed: int = 0) -> Slice:
    """The slice called ``feature=value``, such as ``label=1``.

    Raises :class:`~workbench.errors.DataError` if no item is in it, with the values there are.
    """
    feature, _, value = (part.strip() for part in chosen.partition("="))
    scores, features = _material(run, task, metric, feature)
    column = features[feature].astype(str)
    mask = (column == value).to_numpy()
    if not mask.any():
        raise DataError(f"slice {chosen!r} is empty; {did_you_mean(value, sorted(set(column)))}")
    return _slice(f"{feature} = {value}", mask, scores, seed)


@reads_runs
def worst_slices(
    run: Run,
    task: str | None = None,
    metric: str = "accuracy",
    *,
    top: int = 10,
    smallest: int = 20,
    depth: int = 2,
    seed: int = 0,
    permutations: int = 1000,
) -> Slices:
    """The slices of ``smallest`` items or more that are worse than the rest, by the size of that in standard errors.

    All slices of one feature and, with ``depth`` 2, all pairs of two are looked at; each p-value is the share of
    permutations of the item scores in which the worst of all slices is as bad (Westfall & Young 1993, single step), so
    it is corrected for the search.
    """
    scores, features = _material(run, task, metric, None)
    masks = _masks(features, depth, smallest)
    if not masks:
        return Slices()
    names, members = list(masks), np.stack(list(masks.values()))
    far = _standard_scores(_goodness(scores), members)[0]
    p_values = _search_corrected(_goodness(scores), members, seed, permutations, either=False)
    worst = [k for k in np.argsort(far, kind="stable")[:top] if far[k] < 0]
    return Slices(
        replace(_slice(names[k], members[k], scores, seed), p_value=float(p_values[k])) for k in worst
    )


def _material(run: Run, task: str | None, metric: str, by: str | None) -> tuple[ItemScores, pd.DataFrame]:
    task = task or _only_task(run)
    scores = item_scores(run, task, metric)
    if scores.measure not in (mean_measure, perplexity_measure):
        raise RunError(
            f"{metric} of {task!r} is not a mean over single items, so it has no slices; use accuracy"
        )
    examples = task_examples(run, task)
    features = slice_features(examples)
    if by is not None and by not in features:
        if by not in examples:
            raise RunError(
                f"nothing to slice {task!r} by called {by!r}; {did_you_mean(by, [str(f) for f in features])}"
            )
        features = features.assign(**{by: examples[by].astype(str)})
    return scores, features if by is None else features[[by]]


def _only_task(run: Run) -> str:
    if len(run.results) != 1:
        raise RunError(
            f"{run.path.name} has {len(run.results)} tasks: {', '.join(run.results):.200}; name one"
        )
    return next(iter(run.results))


def _masks(features: pd.DataFrame, depth: int, smallest: int) -> dict[str, Array]:
    """Name and membership (item,) of every slice that is neither smaller than asked nor everything.

    Slices with the same items (collinear features, a pair that adds nothing to one of the two) appear once, by the
    name of the first.
    """
    single = {
        (feature, str(value)): (features[feature] == value).to_numpy(bool)
        for feature in features
        for value in sorted(features[feature].dropna().unique(), key=str)
    }
    masks = {f"{feature} = {value}": mask for (feature, value), mask in single.items()}
    if depth > 1:
        for (a, one), (b, two) in combinations(single.items(), 2):
            if a[0] != b[0]:
                masks[f"{a[0]} = {a[1]} and {b[0]} = {b[1]}"] = one & two
    once = {mask.tobytes(): name for name, mask in reversed(masks.items())}
    kept = set(once.values())
    return {n: mask for n, mask in masks.items() if n in kept and smallest <= mask.sum() < len(mask)}


def _goodness(scores: ItemScores) -> Array:
    """Item scores that rise as the model does better."""
    return scores.values[:, 0] * (-1.0 if scores.higher_is_better is False else 1.0)


def _slice(name: str, mask: Array, scores: ItemScores, seed: int) -> Slice:
    part = scores.take(np.flatnonzero(mask))
    good = _goodness(scores)
    difference = float(good[mask].mean() - good[~mask].mean()) if not mask.all() else 0.0
    return Slice(name=name, n=int(mask.sum()), estimate=_interval(part, seed), difference=difference)


def _interval(part: ItemScores, seed: int) -> Estimate:
    values = part.values[:, 0]
    if part.right_or_wrong and part.clusters is None:
        return wilson(int(values.sum()), len(values), higher_is_better=part.higher_is_better is not False)
    transform = np.exp if part.measure is perplexity_measure else None
    found = bootstrap(values, seed=seed, resamples=500, clusters=part.clusters, transform=transform)
    return replace(found, higher_is_better=part.higher_is_better)


def _standard_scores(scores: Array, masks: Array) -> Array:
    """How many standard errors each slice (row of ``masks``) lies from the mean of all, per row of ``scores``.

    The error is that of a mean of as many items drawn without replacement.
    """
    scores = np.atleast_2d(scores)
    n, sizes = scores.shape[1], masks.sum(1)
    means = scores @ masks.T.astype(float) / sizes  # (draw, slice)
    spread = scores.std(1, ddof=1)[:, None] * np.sqrt((1 - sizes / n) / sizes)
    return (means - scores.mean(1, keepdims=True)) / np.where(spread > 0, spread, np.inf)


def _search_corrected(scores: Array, masks: Array, seed: int, permutations: int, either: bool) -> Array:
    """p-value of each slice being as far below as it is, or off in ``either`` direction, against the most extreme."""

    def depth(drawn: Array) -> Array:
        return np.abs(drawn) if either else -drawn

    observed = depth(_standard_scores(scores, masks)[0])
    rng = np.random.default_rng(seed)
    deepest = np.empty(permutations)
    step = max(1, 2**22 // len(scores))
    for start in range(0, permutations, step):
        count = min(step, permutations - start)
        drawn = _standard_scores(rng.permuted(np.tile(scores, (count, 1)), axis=1), masks)
        deepest[start : start + count] = depth(drawn).max(1)
    found: Array = (1 + (deepest[:, None] >= observed - 1e-9).sum(0)) / (1 + permutations)
    return found
