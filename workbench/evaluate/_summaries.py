"""One number for a group of tasks: the benchmark's own average."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scipy import stats

from workbench.estimate import Estimate
from workbench.evaluate.tasks import AVERAGES

__all__ = ["summarize"]

Results = Mapping[str, Mapping[str, Estimate]]


def summarize(names: Sequence[str], results: Results) -> dict[str, dict[str, Estimate]]:
    """For each group among ``names`` that has an average, the mean over its tasks of the mean of their metrics."""
    return {
        name: {"average": _average(AVERAGES[name], results)}
        for name in names
        if name in AVERAGES and len(_parts(AVERAGES[name], results)) > 1
    }


def _parts(average: Mapping[str, Sequence[tuple[str, str]]], results: Results) -> list[list[Estimate]]:
    found = [
        [results[t][m] for t, m in pairs if t in results and m in results[t]] for pairs in average.values()
    ]
    return [part for part in found if part]


def _average(average: Mapping[str, Sequence[tuple[str, str]]], results: Results) -> Estimate:
    """Tasks are independent of one another; the metrics of one task are taken as if they were one and the same."""
    parts = _parts(average, results)
    value = sum(sum(e.value for e in part) / len(part) for part in parts) / len(parts)
    errors = [sum(e.standard_error for e in part) / len(part) for part in parts]
    error = math.sqrt(sum(e * e for e in errors)) / len(parts)
    reach = float(stats.norm.ppf(0.975)) * error
    return Estimate(
        value=value,
        standard_error=error,
        low=value - reach,
        high=value + reach,
        n=len(parts),
        method=f"normal; mean of {len(parts)} of {len(average)} tasks",
        undefined=_why_undefined(average, results),
    )


def _why_undefined(average: Mapping[str, Sequence[tuple[str, str]]], results: Results) -> str | None:
    """The first task's reason, if one is undefined or has no standard error."""
    pairs = [(t, m) for found in average.values() for t, m in found if t in results and m in results[t]]
    undefined = ((t, m, results[t][m].undefined) for t, m in pairs)
    return next((f"{m} of {t}: {reason}" for t, m, reason in undefined if reason), None)
