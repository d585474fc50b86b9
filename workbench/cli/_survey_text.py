"""A survey of attention as text for the terminal."""

from __future__ import annotations

import shlex

import numpy as np
import pandas as pd

from workbench.analysis.head_clusters import head_clusters_of
from workbench.analysis.heads_over_steps import head_statistics_of
from workbench.cli._shared import model_line, verdict
from workbench.cli._tables import table
from workbench.estimate import printed_text
from workbench.figures.stored import dependency_frame
from workbench.runs import Run, reads_runs
from workbench.terminal import counted

__all__ = ["survey_text"]

_SHOWN = 12  # heads of a cluster


@reads_runs
def survey_text(run: Run) -> str:
    """What ``workbench attend --corpus`` prints: the heads' statistics, the dependency table, where it is."""
    notes = run.notes
    rate = run.throughput.get("tokens_per_second", 0.0)
    parts = [
        f"{model_line(run)}, doctor: {verdict(run)}\n"
        f"{counted(notes['texts'], 'text')}, {counted(notes['tokens'], 'token')}, {notes['tokens cut']:,} truncated",
        _heads_table(run),
        _dependency_table(run) if notes.get("best heads") else "",
        _clusters_table(run),
        f"{rate:,.0f} tokens/s; run stored in {run.path}\nnext: workbench report {shlex.quote(str(run.path))}",
    ]
    return "\n\n".join(filter(None, parts))


def _heads_table(run: Run) -> str:
    """Each statistic: mean over heads, what uniform attention gives, and the heads at the ends."""
    rows = []
    for name, s in head_statistics_of(run).items():
        assert s.standard_error is not None
        ends = [np.unravel_index(at(s.values), s.values.shape) for at in (np.argmax, np.argmin)]
        uniform = run.notes["statistics"][name]["uniform"]
        heads = [f"{e[0]}-{e[1]}: {_with_error(s.values[e], s.standard_error[e])}" for e in ends]
        mean = _with_error(np.mean(s.values), np.mean(s.standard_error))
        rows.append((name, s.unit, mean, "-" if uniform is None else f"{uniform:.4f}", *heads))
    header = ("statistic", "unit", "mean of heads", "uniform", "highest head", "lowest head")
    return f"{table(header, rows)}\n± standard error, clustered by text; of the mean of heads an upper bound"


def _with_error(value: float, error: float) -> str:
    """A value and its standard error, which one text has not."""
    return f"{value:.4f}, error undefined" if np.isnan(error) else f"{value:.4f} ± {error:.4f}"


def _clusters_table(run: Run) -> str:
    """Each group's heads, and how far they are from each other."""
    found = head_clusters_of(run)
    if found is None:
        return ""
    groups = found.to_frame().groupby("cluster")
    rows = [
        (
            number,
            len(of),
            "-" if of["divergence"].isna().all() else f"{of['divergence'].mean():.3f}",
            _names(of),
        )
        for number, of in groups
    ]
    return table(("cluster", "heads", "divergence (bits)", "layer-head"), rows)


def _names(heads: pd.DataFrame) -> str:
    shown = [f"{layer}-{head}" for layer, head in heads[["layer", "head"]].to_numpy()[:_SHOWN]]
    return ", ".join(shown) + (", …" if len(heads) > _SHOWN else "")


def _dependency_table(run: Run) -> str:
    rows = [
        (
            row["relation"],
            str(row["count"]),
            f"{row['layer']}-{row['head']}",
            row["direction"],
            printed_text(row["accuracy"], row["low"], row["high"], row["undefined"], 3),
            f"{row['offset']:+d}",
            f"{row['baseline']:.3f}",
            printed_text(row["gain"], row["gain low"], row["gain high"], row["gain undefined"], 3, "+"),
        )
        for row in dependency_frame(run).to_dict("records")
    ]
    header = ("relation", "words", "head", "direction", "accuracy", "offset", "baseline", "gain")
    said = (
        "head and offset (the baseline: the word that far to the right is the head) were chosen on one half of\n"
        "the sentences, accuracies are from the other half; 95 % intervals clustered by sentence"
    )
    return f"{table(header, rows)}\n{said}"
