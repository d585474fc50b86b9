"""What a stored run says about each item: the numbers that a metric is made of, and the ids they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, NumericsError, RunError, did_you_mean
from workbench.evaluate.metric_columns import metric_columns
from workbench.runs import Run
from workbench.shapes import Array
from workbench.statistics import Measure, mean_measure

__all__ = ["ItemScores", "check_same_items", "data_hashes", "item_scores", "run_names", "task_examples"]

# The columns that name a row's group whole, then those whose values make its path behind the name of the set.
_NAMES = ("task", "group")
_PATHS = (
    ("phenomenon", "paradigm"),
    ("part", "group"),
    ("source", "relation"),
    ("bias_type",),
    ("direction",),
    ("suite",),
)
_APPLIED = ("applied", "asked")  # false in rows that no metric counts
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

    Rows are found by the group's whole path. Raises :class:`~workbench.errors.RunError` for a task that the run does
    not have, no rows, or an id twice.
    """
    if task not in run.results:
        raise RunError(f"{run.path.name} has no task {task!r}; {did_you_mean(task, list(run.results))}")
    examples = run.examples()
    rows = next((examples[mask] for path in _paths(run, examples) if (mask := path == task).any()), None)
    if rows is None:
        raise RunError(f"{run.path.name} stores no examples under the name {task!r}; run it again")
    for column in _APPLIED:
        rows = rows[rows[column].astype(bool)] if column in rows else rows
    twice = rows["id"][rows["id"].duplicated()]
    if len(twice):
        raise RunError(
            f"{run.path.name} holds {len(twice)} ids of {task!r} twice, first {twice.iloc[0]!r}, so its items cannot "
            "be paired; give each item an id of its own and run it again"
        )
    return rows.reset_index(drop=True).infer_objects()


def _paths(run: Run, examples: pd.DataFrame) -> Iterator[pd.Series[Any]]:
    """The names of the groups that each row is in, one series of them after the other."""
    for name in _NAMES:
        if name in examples:
            yield examples[name].astype(str)
    top = str(run.record.recipe.get("set") or next(iter(run.results)))
    if "task" not in examples:
        yield pd.Series(top, index=examples.index)
    for columns in _PATHS:
        path = pd.Series(top, index=examples.index)
        for column in columns:
            if column not in examples:
                break
            path = path + "/" + examples[column].astype(str)
            yield path


def item_scores(run: Run, task: str, metric: str) -> ItemScores:
    """The numbers behind ``run.results[task][metric]``: the columns that the metric is made of, checked.

    They must reproduce the stored value from as many items as are stored. Raises
    :class:`~workbench.errors.RunError` if they do not, :class:`~workbench.errors.NumericsError` for NaN scores.
    """
    rows = task_examples(run, task)
    metrics = run.results[task]
    if metric not in metrics:
        raise RunError(f"task {task!r} has no metric {metric!r}; {did_you_mean(metric, list(metrics))}")
    stored = metrics[metric]
    name = f"{metric} of {task!r}"
    if np.isnan(stored.value):
        raise RunError(
            f"{name} is undefined in {run.path.name} ({stored.undefined}); choose another --metric"
        )
    part, metric = _of_subtask(rows, metric)
    for kept, values, measure in metric_columns(part, metric):
        _check_finite(run, name, kept, values)
        clusters = _clusters(kept)
        counted = {len(kept), len(kept) if clusters is None else len(set(clusters))}
        if stored.n in counted and _close(float(measure(values)), stored.value):
            return ItemScores(tuple(kept["id"]), values, measure, clusters, stored.higher_is_better)
    raise RunError(
        f"{name} is not made of scores of single items that {run.path.name} stores "
        f"({len(part)} rows for n = {stored.n}), so it cannot be compared in pairs; choose another --metric"
    )


def _of_subtask(rows: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, str]:
    """The rows and the plain name of a metric that lm-eval's groups call ``subtask/metric``."""
    subtask, _, plain = metric.rpartition("/")
    if not subtask or "subtask" not in rows:
        return rows, metric
    return rows[rows["subtask"] == subtask], plain


def _check_finite(run: Run, name: str, rows: pd.DataFrame, values: Array) -> None:
    bad = ~np.isfinite(values).all(1)
    if bad.any():
        raise NumericsError(
            f"{run.path.name}: {int(bad.sum())} scores behind {name} are NaN or infinite, first of item "
            f"{rows['id'][bad].iloc[0]!r}; find out why: workbench doctor {run.record.model['name']}"
        )


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


def _close(value: float, stored: float) -> bool:
    return abs(value - stored) <= _TOLERANCE * max(1.0, abs(stored))
