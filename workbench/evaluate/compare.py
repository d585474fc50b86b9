"""Runs compared in pairs on the same items: the difference, its interval, a test, and a verdict in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.drawn import Drawn
from workbench.errors import RunError
from workbench.estimate import Estimate
from workbench.evaluate.compare_items import ItemScores, check_same_items, item_scores, run_names
from workbench.runs import Run, as_run, reads_runs
from workbench.statistics import (
    benjamini_hochberg,
    holm,
    mcnemar,
    mean_measure,
    minimum_detectable_difference,
    paired_difference,
    paired_permutation,
)
from workbench.terminal import counted

__all__ = ["Comparison", "Comparisons", "compare", "compare_scores", "differences_text", "run_differences"]

LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One metric of two runs on the same ``n`` items (``clusters`` groups of them, where some belong together).

    ``difference`` is first minus second. ``p_value`` is of the test that ``test`` names, ``p_holm`` and ``p_bh``
    are corrected over all comparisons made together. ``effect_size`` is what ``effect`` names: Cohen's g of the
    items that one alone gets right, or the mean difference over its standard deviation (Cohen's d_z).
    ``detectable`` is the smallest true difference that this number of items shows in four of five cases.
    """

    task: str
    metric: str
    first: str
    second: str
    n: int
    clusters: int | None
    values: tuple[float, float]
    difference: Estimate
    test: str
    p_value: float
    effect: str
    effect_size: float
    detectable: float
    p_holm: float = math.nan
    p_bh: float = math.nan
    counts: tuple[int, int, int, int] | None = None  # both, first only, second only, neither right

    @property
    def better(self) -> str | None:
        """The run shown to be better at 5 % after Holm's correction; ``None`` where no difference is shown."""
        if not self.p_holm <= LEVEL or self.difference.value == 0:
            return None
        first = (self.difference.value > 0) == (self.difference.higher_is_better is not False)
        return self.first if first else self.second

    @property
    def verdict(self) -> str:
        """One sentence that says no more than the numbers do."""
        items = f"{counted(self.n, 'item')}" + (f" in {self.clusters:,} groups" if self.clusters else "")
        gap = _points(self.detectable, self.metric, self.values)
        if self.better is None and math.isnan(self.detectable):
            return f"no difference shown on {items}: {self.difference.undefined}"
        if self.better is None:
            return f"no difference shown; with {items} a gap under {gap} would not have been seen"
        size = _points(abs(self.difference.value), self.metric, self.values)
        low, high = sorted(abs(v) for v in (self.difference.low, self.difference.high))
        if self.difference.low * self.difference.high < 0:
            low = 0.0
        bounds = f"{_points(low, self.metric, self.values).split()[0]} to {_points(high, self.metric, self.values)}"
        return f"{self.better} is better by {size} (95 % interval {bounds}) on {items}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for ``--json``."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "difference": self.difference.to_dict(),
            "better": self.better,
            "verdict": self.verdict,
        }


class Comparisons(Drawn, tuple[Comparison, ...]):
    """What was compared together; one :class:`Comparison` for each pair of runs and metric."""

    drawn_by = "comparison_plot"

    def to_frame(self) -> pd.DataFrame:
        """One row a comparison: task, metric, the runs, the difference with its interval, p-values, the verdict."""
        names = ("task", "metric", "first", "second", "n", "test", "p_value", "p_holm", "p_bh", "detectable")
        return pd.DataFrame(
            [
                {
                    **{name: getattr(c, name) for name in names},
                    "value_first": c.values[0],
                    "value_second": c.values[1],
                    "difference": c.difference.value,
                    "low": c.difference.low,
                    "high": c.difference.high,
                    "verdict": c.verdict,
                }
                for c in self
            ]
        )

    def __str__(self) -> str:
        return "\n".join(f"{c.task} {c.metric}, {c.first} and {c.second}: {c.verdict}" for c in self)

    def __repr__(self) -> str:
        return f"<Comparisons: {self}>" if len(self) == 1 else f"<{len(self)} Comparisons:\n{self}>"


def _points(value: float, metric: str, values: tuple[float, float]) -> str:
    """Shares in percentage points, everything else in the metric's own unit."""
    if all(-1 <= v <= 1 for v in values) and not metric.startswith(("perplexity", "loss", "bits")):
        return f"{100 * value:.1f} points"
    return f"{value:.3g}"


def compare(
    *runs: Run | str | Path | Sequence[Run | str | Path],
    task: str | None = None,
    metric: str | None = None,
    seed: int = 0,
    resamples: int = 2000,
) -> Comparisons:
    """Every pair of ``runs`` on every metric they share (or on ``task`` and ``metric`` alone), corrected together.

    Args:
        *runs: two stored runs or more, or their ids or folders, one by one or in a list.
        task: only this task.
        metric: only this metric; those that are not made of single items are left out unless asked for.
        seed: of permutations and resamples.
        resamples: of the bootstrap.

    Raises:
        RunError: the runs share nothing that can be compared.
        DataError: they were run on different data or items.

    Example:
        ```python
        import workbench

        first = workbench.check("novels-decoder", "pairs_builtin", limit=20)
        second = workbench.check("novels-encoder", "pairs_builtin", limit=20)
        print(workbench.compare(first, second, metric="accuracy"))
        ```
    """
    listed = [run for one in runs for run in ([one] if isinstance(one, Run | str | Path) else one)]
    return _compared([as_run(run) for run in listed], task, metric, seed, resamples)


@reads_runs
def _compared(
    runs: Sequence[Run], task: str | None, metric: str | None, seed: int, resamples: int
) -> Comparisons:
    if len(runs) < 2:
        raise RunError(f"comparing needs two runs or more, got {len(runs)}; list them: workbench runs")
    for run in runs:
        if not run.complete:
            raise RunError(
                f"{run.path.name} is not finished; go on with: workbench evaluate --resume {run.path}"
            )
    names = run_names(runs)
    found, reasons = [], []
    for i, j in combinations(range(len(runs)), 2):
        for one, name in _shared(runs[i], runs[j], task, metric):
            try:
                scores = _pair(runs[i], runs[j], one, name)
            except RunError as error:
                if metric is not None:
                    raise
                reasons.append(str(error))
                continue
            labels = (names[i], names[j])
            found.append(compare_scores(*scores, labels, one, name, seed=seed, resamples=resamples))
    if not found:
        raise RunError(f"no metric can be compared item by item; the first: {reasons[0]}")
    return _corrected(found)


def _shared(first: Run, second: Run, task: str | None, metric: str | None) -> list[tuple[str, str]]:
    tasks = [name for name in first.results if name in second.results and task in (None, name)]
    if not tasks:
        wanted = f" {task!r}" if task else ""
        raise RunError(
            f"{first.path.name} ({', '.join(first.results)}) and {second.path.name} "
            f"({', '.join(second.results)}) have no task{wanted} in common; evaluate both on the same task"
        )
    pairs = [
        (t, m) for t in tasks for m in first.results[t] if m in second.results[t] and metric in (None, m)
    ]
    if not pairs:
        known = sorted({m for t in tasks for m in first.results[t]})
        raise RunError(f"the runs share no metric {metric!r}; known: {', '.join(known)}")
    return pairs


def _pair(first: Run, second: Run, task: str, metric: str) -> tuple[ItemScores, ItemScores]:
    a, b = item_scores(first, task, metric), item_scores(second, task, metric)
    if a.values.shape[1] != b.values.shape[1] or a.measure is not b.measure:
        raise RunError(
            f"{metric} of {task!r} is made of other columns in {first.path.name} than in {second.path.name}"
        )
    return a, check_same_items(first, second, task, a, b)


def compare_scores(
    a: ItemScores,
    b: ItemScores,
    names: tuple[str, str],
    task: str,
    metric: str,
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> Comparison:
    """Compare two aligned lists of item scores; corrected p-values are those of this test alone.

    Right and wrong of independent items: McNemar's test. Otherwise a permutation test that exchanges the two
    runs item by item, or cluster by cluster.
    """
    options: dict[str, Any] = {"seed": seed, "clusters": a.clusters}
    difference = paired_difference(a.values, b.values, a.measure, resamples=resamples, **options)
    difference = replace(difference, higher_is_better=a.higher_is_better)
    clusters = None if a.clusters is None else len(set(a.clusters))
    counts, effect, size = None, "Cohen's d_z", _standardised(a, b, difference)
    if a.right_or_wrong and b.right_or_wrong:
        exact = mcnemar(a.values[:, 0], b.values[:, 0])
        counts = (exact.both, exact.first_only, exact.second_only, exact.neither)
    if counts is not None and clusters is None:
        test, p_value, effect, size = exact.name, exact.p_value, "Cohen's g", exact.effect_size
    else:
        test = "permutation" + (" of groups" if clusters else "")
        p_value = paired_permutation(a.values, b.values, a.measure, **options)
    error = difference.standard_error
    if counts is not None:  # equal answers everywhere: a single item would have been a difference
        error = max(1 / len(a.ids), 0.0 if math.isnan(error) else error)
    return Comparison(
        task=task,
        metric=metric,
        first=names[0],
        second=names[1],
        n=len(a.ids),
        clusters=clusters,
        values=(float(a.measure(a.values)), float(b.measure(b.values))),
        difference=difference,
        test=test,
        p_value=p_value,
        p_holm=p_value,
        p_bh=p_value,
        effect=effect,
        effect_size=size,
        detectable=minimum_detectable_difference(error),
        counts=counts,
    )


def _standardised(a: ItemScores, b: ItemScores, difference: Estimate) -> float:
    """Mean difference over its standard deviation; for other metrics the same from their standard error."""
    if a.measure is mean_measure:
        gaps = a.values[:, 0] - b.values[:, 0]
        spread = float(np.std(gaps, ddof=1)) if len(gaps) > 1 else 0.0
    else:
        spread = difference.standard_error * math.sqrt(len(a.ids))
    return difference.value / spread if spread > 0 else 0.0


def _corrected(found: Sequence[Comparison]) -> Comparisons:
    p_values = [comparison.p_value for comparison in found]
    adjusted = zip(found, holm(p_values), benjamini_hochberg(p_values), strict=True)
    return Comparisons(replace(c, p_holm=float(h), p_bh=float(b)) for c, h, b in adjusted)


# What names the model itself, or follows from it.
_MODEL = ("name", "content_hash", "parameters", "tokens_seen")


_MISSING = "not stored"


_WIDEST = 40  # characters of a value


@reads_runs
def run_differences(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Setting -> its value in each run, of all settings that are not the same in every run.

    Settings are the whole recipe (options, limit, convention, ...), the model's precision, revision, implementation and
    token policy, the seeds, the hashes of the data, the device, and the versions of the packages.
    """
    stored = [dict(_settings(run)) for run in runs]
    names = dict.fromkeys(name for settings in stored for name in settings)
    values = {name: [settings.get(name, _MISSING) for settings in stored] for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}


def differences_text(differences: Mapping[str, Sequence[Any]]) -> list[str]:
    """One line a setting, with the runs' values in their order; or that there is none."""
    if not differences:
        return ["the runs have the same settings"]
    found = (f"{name} " + " | ".join(_shown(v) for v in values) for name, values in differences.items())
    return ["settings that differ:", *found]


def _settings(run: Run) -> Iterator[tuple[str, Any]]:
    record = run.record
    model = {key: value for key, value in record.model.items() if key not in _MODEL}
    yield "verb", record.verb
    for prefix, part in (
        ("", record.recipe_in_force),
        ("model", model),
        ("seed", record.seeds),
        ("data", record.data),
        ("device", record.device),
        ("package", record.packages),
    ):
        yield from _flat(prefix, part)


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{prefix} {key}".strip()
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        else:
            yield name, value


def _shown(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "none" if value in (None, "", []) else text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
