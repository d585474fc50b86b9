"""Tables of ``workbench attribute``: scores of a text, measures of methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.cli._tables import table
from workbench.estimate import Estimate
from workbench.text.escape import printable

if TYPE_CHECKING:
    from workbench.analysis.faithfulness_examine import Examination
    from workbench.analysis.saliency import Attribution
    from workbench.statistics import Statistic

__all__ = ["examination_text", "measures_text", "scores_text"]


_ACROSS = 4  # measures in one table: a line of a terminal


def scores_text(found: Sequence[Attribution]) -> str:
    """What each method explains and how, then a row for each token."""
    from workbench.figures.saliency import attribution_note

    notes = [f"{attribution.method}: {attribution_note(attribution)}" for attribution in found]
    header = ("token", *(attribution.method for attribution in found))
    rows = [
        (printable(token), *(f"{attribution.scores[i]:+.4f}" for attribution in found))
        for i, token in enumerate(found[0].tokens)
    ]
    return "\n".join([*notes, table(header, rows)])


def examination_text(examination: Examination) -> str:
    """Measures, agreement and randomisation, each as a table with a row for each method."""
    return "\n\n".join(
        f"{statistic.name}\n{_matrix(statistic)}"
        for statistic in (examination.measures, examination.agreement, examination.randomisation)
    )


def _matrix(statistic: Statistic) -> str:
    rows, columns = (statistic.labels[axis] for axis in statistic.axes)
    cells = [
        (name, *("-" if math.isnan(v) else f"{v:.3f}" for v in values))
        for name, values in zip(rows, statistic.values.tolist(), strict=True)
    ]
    return table(("method", *map(str, columns)), cells)


def measures_text(results: Mapping[str, Mapping[str, Estimate]]) -> str:
    """A row for each method: mean of each measure and its interval; ``*`` marks those unlike the random floor."""
    methods = [name for name in results if " - " not in name]
    measures = list(dict.fromkeys(measure for name in methods for measure in results[name]))
    blocks = []
    for start in range(0, len(measures), _ACROSS):
        chosen = measures[start : start + _ACROSS]
        lines = [(name, *(_cell(results, name, measure) for measure in chosen)) for name in methods]
        blocks.append(table(("method", *chosen), lines))
    note = "mean over texts, 95 % bootstrap interval; * unlike random: the interval of paired differences leaves out 0"
    return "\n\n".join([*blocks, note])


def _cell(results: Mapping[str, Mapping[str, Estimate]], name: str, measure: str) -> str:
    estimate = results[name].get(measure)
    if estimate is None:
        return "-"
    difference = results.get(f"{name} - random", {}).get(measure)
    unlike = difference is not None and (difference.low > 0 or difference.high < 0)
    return f"{estimate.text(3)}{'*' if unlike else ''}"
