"""What a stored run says about each item: the numbers that a metric is made of, and the ids they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, NumericsError, RunError, did_you_mean
from workbench.runs import Run
from workbench.shapes import Array
from workbench.statistics import (
    Measure,
    bits_per_unit_measure,
    f1_measure,
    macro_f1_measure,
    matthews_measure,
    mean_measure,
    pearson_measure,
    perplexity_measure,
    spearman_measure,
    unit_perplexity_measure,
)

__all__ = ["ItemScores", "check_same_items", "data_hashes", "item_scores", "run_names", "task_examples"]

# Columns that mark an item as right, in the order in which they are tried.
_RIGHT = ("correct", "greedy", "right")
# Columns with what was predicted and what is right, in the order in which they are tried.
_LABELS = (("prediction", "gold"), ("predicted", "gold"), ("predicted", "label"), ("predicted", "target"))
_PAIRED: dict[str, Measure] = {
    "matthews": matthews_measure,
    "f1": f1_measure,
    "macro_f1": macro_f1_measure,
    "pearson": pearson_measure,
    "spearman": spearman_measure,
}
# Columns by which the rows of a challenge set are grouped in its results.
_GROUPS = ("task", "group", "paradigm", "phenomenon", "part", "bias_type", "relation")
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class ItemScores:
    """One metric of one run, item by item: ``measure(values)`` is the number that the run stores.

    ``values`` has shape (item, column); ``clusters`` labels items that are not independent, or is ``None``.
    """

    ids: tuple[str, ...]
    values: Array
    measure: Measure
    clusters: Array | None
    higher_is_better: bool | None

    @property
    def right_or_wrong(self) -> bool:
        """Whether each item is simply right (1) or wrong (0), and the metric is their share."""
        return self.measure is mean_measure and bool(np.isin(self.values, (0.0, 1.0)).all())

    def take(self, places: Sequence[int] | Array) -> ItemScores:
        """The items at ``places``, in that order."""
        chosen = np.asarray(places, dtype=int)
        return ItemScores(
            tuple(self.ids[i] for i in chosen),
            self.values[chosen],
            self.measure,
            None if self.clusters is None else self.clusters[chosen],
            self.higher_is_better,
        )


def task_examples(run: Run, task: str) -> pd.DataFrame:
    """The example rows of one task (or group of a challenge set) of ``run``, each id once.

    Raises :class:`~workbench.errors.RunError` for a task that the run does not have, no rows, or an id twice.
    """
    if task not in run.results:
        raise RunError(f"{run.path.name} has no task {task!r}; {did_you_mean(task, list(run.results))}")
    examples = run.examples()
    rows = examples
    for column in _GROUPS:
        if column in examples and bool((examples[column] == task).any()):
            rows = examples[examples[column] == task]
            break
    if rows.empty:
        raise RunError(f"{run.path.name} stores no examples of {task!r}; evaluate it again")
    twice = rows["id"][rows["id"].duplicated()]
    if len(twice):
        raise RunError(
            f"{run.path.name}: {len(twice)} ids of {task!r} stand there twice, first {twice.iloc[0]!r}"
        )
    return rows.reset_index(drop=True)


def item_scores(run: Run, task: str, metric: str) -> ItemScores:
    """The numbers behind ``run.results[task][metric]``, found among the columns of the run's examples.

    A column counts as the metric's only if it reproduces the stored value. Raises
    :class:`~workbench.errors.RunError` if none does, :class:`~workbench.errors.NumericsError` for NaN scores.
    """
    rows = task_examples(run, task)
    metrics = run.results[task]
    if metric not in metrics:
        raise RunError(f"task {task!r} has no metric {metric!r}; {did_you_mean(metric, list(metrics))}")
    stored = metrics[metric]
    for values, measure, name in _candidates(rows, metric):
        bad = ~np.isfinite(values).all(1)
        if bad.any() and name in (metric, *_RIGHT):
            raise NumericsError(
                f"{run.path.name}: {int(bad.sum())} scores of {task!r} in column {name!r} are NaN or infinite, "
                f"first of item {rows['id'][bad].iloc[0]!r}; find out why: workbench doctor {run.record.model['name']}"
            )
        if not bad.any() and _close(float(measure(values)), stored.value):
            return ItemScores(tuple(rows["id"]), values, measure, _clusters(rows), stored.higher_is_better)
    raise RunError(
        f"{metric} of {task!r} is not made of scores of single items that {run.path.name} stores, "
        "so it cannot be compared in pairs; choose another --metric"
    )


def _candidates(rows: pd.DataFrame, metric: str) -> Iterator[tuple[Array, Measure, str]]:
    """Values, measure and column name of what could make the metric, likeliest first."""
    names: tuple[str, ...] = (metric, metric.replace("accuracy", "correct"))
    if any(metric.startswith(name) for name in _PAIRED):
        yield from _from_labels(rows, metric)
    else:
        names += _RIGHT
    for name in dict.fromkeys(names):
        if name in rows and _is_number(rows[name]):
            yield _column(rows, name), mean_measure, name
    if "log_probability" in rows:
        yield from _from_losses(rows)
    yield from _from_labels(rows, metric)
    for name in rows.columns:
        if _is_number(rows[name]):
            yield _column(rows, name), mean_measure, str(name)
            yield -_column(rows, name), perplexity_measure, str(name)


def _from_losses(rows: pd.DataFrame) -> Iterator[tuple[Array, Measure, str]]:
    loss = -rows["log_probability"].to_numpy(float)
    yield loss[:, None], perplexity_measure, "log_probability"
    for unit in ("tokens", "words", "bytes", "characters"):
        if unit in rows:
            columns = np.stack([loss, rows[unit].to_numpy(float)], axis=1)
            yield columns, unit_perplexity_measure, "log_probability"
            yield columns, bits_per_unit_measure, "log_probability"


def _from_labels(rows: pd.DataFrame, metric: str) -> Iterator[tuple[Array, Measure, str]]:
    measure = next((m for name, m in _PAIRED.items() if metric.startswith(name)), None)
    for predicted, gold in _LABELS:
        if predicted not in rows or gold not in rows:
            continue
        columns = label_codes(rows[predicted], rows[gold])
        if measure is not None:
            yield columns, measure, gold
        else:
            yield (columns[:, :1] == columns[:, 1:]).astype(float), mean_measure, gold
        if measure is f1_measure and len(np.unique(columns)) == 2:
            yield 1 - columns, measure, gold  # the labels' order may be the other way round
        if measure is f1_measure:
            yield columns, macro_f1_measure, gold


def label_codes(predicted: pd.Series[Any], gold: pd.Series[Any]) -> Array:
    """Two columns of numbers: numbers as they are, other labels by their place in sorted order."""
    columns = [pd.to_numeric(column, errors="coerce") for column in (predicted, gold)]
    if not any(column.isna().any() for column in columns):
        return np.stack([column.to_numpy(float) for column in columns], axis=1)
    names = [column.astype(str) for column in (predicted, gold)]
    codes = {name: code for code, name in enumerate(sorted(set(names[0]) | set(names[1])))}
    return np.stack([name.map(codes).to_numpy(float) for name in names], axis=1)


def _clusters(rows: pd.DataFrame) -> Array | None:
    for name in ("cluster", "template"):
        if name in rows and rows[name].notna().all() and rows[name].nunique() < len(rows):
            labels = rows[name].astype(str).to_numpy()
            return labels if len(set(labels)) > 1 else None
    return None


def check_same_items(first: Run, second: Run, task: str, a: ItemScores, b: ItemScores) -> ItemScores:
    """``b`` in the order of ``a``'s ids.

    Raises :class:`~workbench.errors.DataError` if data or ids of the two runs differ: which, and what to do.
    """
    hashes = data_hashes(first, task), data_hashes(second, task)
    if hashes[0] != hashes[1]:
        seen = " and ".join((", ".join(sorted(h))[:12] or "none") for h in hashes)
        raise DataError(
            f"{first.path.name} and {second.path.name} were run on different data for {task!r} "
            f"(sha256 {seen}); evaluate both models on the same files"
        )
    places = {name: place for place, name in enumerate(b.ids)}
    missing = [name for name in a.ids if name not in places]
    extra = len(b.ids) - (len(a.ids) - len(missing))
    if missing or extra:
        first_missing = missing[0] if missing else next(n for n in b.ids if n not in set(a.ids))
        raise DataError(
            f"{task!r}: {len(missing)} ids of {first.path.name} are missing in {second.path.name} and {extra} the "
            f"other way round, first {first_missing!r}; evaluate both with the same --limit"
        )
    return b.take([places[name] for name in a.ids])


def data_hashes(run: Run, task: str) -> frozenset[str]:
    """The hashes that identify the data of ``task`` in the run's record."""
    data = run.record.data
    entry = data.get(task, data.get(str(run.record.recipe.get("set")), data))
    return frozenset(_hashes(entry))


def _hashes(entry: Any) -> Iterator[str]:
    if isinstance(entry, dict):
        for key, value in entry.items():
            if key in ("sha256", "content_hash") and value:
                yield str(value)
            else:
                yield from _hashes(value)


def run_names(runs: Sequence[Run]) -> tuple[str, ...]:
    """The models' names; where two are equal, with the end of the run's id."""
    names = [str(run.record.model["name"]) for run in runs]
    return tuple(
        f"{name} ({run.path.name[-4:]})" if names.count(name) > 1 else name
        for name, run in zip(names, runs, strict=True)
    )


def _is_number(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column)) or bool(pd.api.types.is_bool_dtype(column))


def _column(rows: pd.DataFrame, name: Any) -> Array:
    return rows[name].to_numpy(float)[:, None]


def _close(value: float, stored: float) -> bool:
    return abs(value - stored) <= _TOLERANCE * max(1.0, abs(stored))
