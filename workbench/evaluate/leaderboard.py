"""Runs in order of a metric, with those that no test tells apart in one group; and who gets which item right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from workbench.errors import DataError, NumericsError, RunError
from workbench.estimate import Estimate
from workbench.evaluate.compare import LEVEL, Comparison, compare_scores
from workbench.evaluate.compare_items import (
    ItemScores,
    check_same_items,
    data_hashes,
    item_scores,
    run_names,
    task_examples,
)
from workbench.runs import Run, reads_runs
from workbench.statistics import Statistic, holm

__all__ = ["Leaderboard", "LeaderboardRow", "agreement", "leaderboard", "only_one_right"]


@dataclass(frozen=True)
class LeaderboardRow:
    """One run's place: the ``group`` it is tied in (from 1), its ``name``, ``run`` folder name and number."""

    group: int
    name: str
    run: str
    estimate: Estimate


@dataclass(frozen=True)
class Leaderboard:
    """Runs on the same items of one task, best first.

    Within a group no run was shown to differ from the group's first (paired tests, Holm over all pairs at 5 %).
    Where items are not stored or not the same, ``tested`` is false and runs are tied if intervals overlap.
    """

    task: str
    metric: str
    data: str
    rows: tuple[LeaderboardRow, ...]
    comparisons: tuple[Comparison, ...] = ()
    tested: bool = True

    def to_frame(self) -> pd.DataFrame:
        """One row a run: group, model, value, low, high, n, run, and why what is undefined is so."""
        return pd.DataFrame(
            {
                "group": row.group,
                "model": row.name,
                "value": row.estimate.value,
                "low": row.estimate.low,
                "high": row.estimate.high,
                "n": row.estimate.n,
                "run": row.run,
                "undefined": row.estimate.undefined or "",
            }
            for row in self.rows
        )


@reads_runs
def leaderboard(
    runs: Sequence[Run], *, task: str | None = None, metric: str | None = None, seed: int = 0
) -> tuple[Leaderboard, ...]:
    """A table for every task and metric of ``runs`` (or those named); runs on different data get tables of their own.

    Unfinished runs are left out. Raises :class:`~workbench.errors.RunError` if nothing is left.
    """
    boards: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        for one, metrics in run.results.items() if run.complete else ():
            for name, estimate in metrics.items():
                if task in (None, one) and metric in (None, name):
                    data = f"{' '.join(sorted(data_hashes(run, one)))} n={estimate.n}"
                    boards.setdefault((one, name, data), []).append(run)
    if not boards:
        wanted = " ".join(filter(None, (task, metric))) or "a result"
        raise RunError(f"no finished run among {len(runs)} has {wanted}; list them: workbench runs")
    return tuple(_board(*key, members, seed) for key, members in boards.items())


def _board(task: str, metric: str, data: str, runs: list[Run], seed: int) -> Leaderboard:
    estimates = [run.results[task][metric] for run in runs]
    sign = -1 if estimates[0].higher_is_better is False else 1
    order = sorted(
        range(len(runs)), key=lambda i: (_last_if_nan(-sign * estimates[i].value), runs[i].path.name)
    )
    runs, estimates = [runs[i] for i in order], [estimates[i] for i in order]
    names = run_names(runs)
    scores = _aligned(runs, task, metric)
    comparisons = _all_pairs(scores, names, task, metric, seed) if scores else ()
    shown = {(c.first, c.second) for c in comparisons if c.p_holm <= LEVEL}
    groups, head = [1], 0
    for i in range(1, len(runs)):
        apart = (names[head], names[i]) in shown if scores else _apart(estimates[head], estimates[i])
        head = i if apart else head
        groups.append(groups[-1] + int(apart))
    rows = tuple(
        LeaderboardRow(group, name, run.path.name, estimate)
        for group, name, run, estimate in zip(groups, names, runs, estimates, strict=True)
    )
    return Leaderboard(task, metric, data, rows, comparisons, tested=scores is not None)


def _last_if_nan(value: float) -> float:
    return float("inf") if np.isnan(value) else value


def _apart(first: Estimate, second: Estimate) -> bool:
    return first.low > second.high or first.high < second.low


def _aligned(runs: Sequence[Run], task: str, metric: str) -> list[ItemScores] | None:
    """Item scores of all runs in one order of items; ``None`` where they cannot be put side by side."""
    try:
        scores = [item_scores(run, task, metric) for run in runs]
        pairs = zip(runs, scores, strict=True)
        aligned = [check_same_items(runs[0], run, task, scores[0], score) for run, score in pairs]
    except (RunError, DataError, NumericsError):
        return None
    return aligned if len({(s.measure, s.values.shape) for s in aligned}) == 1 else None


def _all_pairs(
    scores: Sequence[ItemScores], names: Sequence[str], task: str, metric: str, seed: int
) -> tuple[Comparison, ...]:
    found = [
        compare_scores(scores[i], scores[j], (names[i], names[j]), task, metric, seed=seed, resamples=500)
        for i, j in combinations(range(len(scores)), 2)
    ]
    adjusted = holm([c.p_value for c in found])
    return tuple(replace(c, p_holm=float(p)) for c, p in zip(found, adjusted, strict=True))


@reads_runs
def agreement(runs: Sequence[Run], task: str, metric: str = "accuracy", *, kappa: bool = False) -> Statistic:
    """How often two runs are both right or both wrong, for every pair: axes ``run`` and ``other``.

    With ``kappa`` the share is corrected for what their accuracies alone would give (Cohen 1960); it is 1 for two runs
    that are right about every item, or about none, where Cohen's has no value. Raises
    :class:`~workbench.errors.RunError` if the metric is not right or wrong of single items.
    """
    right, names = _right(runs, task, metric)
    shares = (right[:, None] == right[None]).mean(-1)
    if kappa:
        means = right.mean(-1)
        chance = np.outer(means, means) + np.outer(1 - means, 1 - means)
        shares = np.where(chance < 1, (shares - chance) / np.where(chance < 1, 1 - chance, 1), 1.0)
    return Statistic(
        name=f"{'Cohen’s kappa' if kappa else 'agreement'} on {task}",
        unit="kappa" if kappa else "share of items",
        values=shares,
        axes=("run", "other"),
        labels={"run": names, "other": names},
    )


@reads_runs
def only_one_right(runs: Sequence[Run], task: str, metric: str = "accuracy") -> pd.DataFrame:
    """The items that exactly one run gets right: column ``model``, then the columns of that run's example row."""
    right, names = _right(runs, task, metric)
    tables = [task_examples(run, task).set_index("id") for run in runs]
    ids = tables[0].index.tolist()
    alone = np.flatnonzero(right.sum(0) == 1)
    owners = right[:, alone].argmax(0)
    rows = [
        {"model": names[owner], "id": ids[item], **tables[owner].loc[ids[item]].to_dict()}
        for item, owner in zip(alone.tolist(), owners.tolist(), strict=True)
    ]
    return pd.DataFrame(rows, columns=None if rows else ["model", "id"])


def _right(runs: Sequence[Run], task: str, metric: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Right or wrong, shape (run, item), in the order of the first run's items."""
    scores = [item_scores(run, task, metric) for run in runs]
    wrong_kind = [run.path.name for run, s in zip(runs, scores, strict=True) if not s.right_or_wrong]
    if wrong_kind:
        raise RunError(
            f"{metric} of {task!r} in {wrong_kind[0]} is not right or wrong of each item; use accuracy"
        )
    aligned = [check_same_items(runs[0], r, task, scores[0], s) for r, s in zip(runs, scores, strict=True)]
    return np.stack([s.values[:, 0] for s in aligned]), run_names(runs)
