"""The results of runs as a table, in the formats that papers and scripts take."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pandas as pd

from workbench.errors import WorkbenchError, did_you_mean
from workbench.report._sections import result_rows
from workbench.report._text import visible
from workbench.runs import Run, reads_runs

__all__ = ["FORMATS", "render_table", "results_frame"]

_COLUMNS = (
    "run",
    "model",
    "task",
    "metric",
    "value",
    "standard_error",
    "low",
    "high",
    "confidence",
    "n",
    "undefined",
)


@reads_runs
def results_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """One row for each value: run, model, task, metric, value, standard error, interval, n, method."""
    rows = [
        {
            "run": run.record.id,
            "model": visible(str(run.record.model.get("name", ""))),
            "task": visible(task),
            "metric": visible(metric),
            **estimate.to_dict(),
            "method": visible(estimate.method),
        }
        for run in runs
        for task, metrics in run.results.items()
        for metric, estimate in metrics.items()
    ]
    return pd.DataFrame(rows, columns=[*_COLUMNS, "method", "higher_is_better"])


@reads_runs
def render_table(runs: Sequence[Run], form: str) -> str:
    """The results of ``runs`` as ``md``, ``latex``, ``csv`` or ``json``.

    Raises :class:`~workbench.errors.WorkbenchError` for another format or where no run has results.
    """
    if form not in FORMATS:
        raise WorkbenchError(f"unknown --format {form!r}; {did_you_mean(form, ['html', *FORMATS])}")
    if not any(run.results for run in runs):
        names = ", ".join(run.record.id for run in runs)
        raise WorkbenchError(f"no results yet in {names}; finish the run first, with --resume")
    return FORMATS[form](runs)


def _csv(runs: Sequence[Run]) -> str:
    return results_frame(runs).to_csv(index=False)


def _json(runs: Sequence[Run]) -> str:
    content = [
        {
            "run": run.record.id,
            "verb": run.record.verb,
            "recipe": run.record.recipe,
            "model": run.record.model,
            "data": run.record.data,
            "seeds": run.record.seeds,
            "doctor": (run.record.doctor or {}).get("verdict"),
            "results": {t: {m: e.to_dict() for m, e in ms.items()} for t, ms in run.results.items()},
        }
        for run in runs
    ]
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


_HEADINGS = ("model", "task", "metric", "value", "interval", "n")


def _cells(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    return [
        (visible(str(run.record.model.get("name", ""))), r.task, r.metric, r.value, r.interval, r.n)
        for run in runs
        for r in result_rows(run)
    ]


def _markdown(runs: Sequence[Run]) -> str:
    rows = [_HEADINGS, ("---", "---", "---", "--:", "--:", "--:")]
    cells = [tuple(_markdown_text(c) for c in row) for row in _cells(runs)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [*rows, *cells])


def _markdown_text(text: str) -> str:
    """Signs that Markdown or HTML would read are escaped."""
    return "".join(f"\\{c}" if c in r"\`*_[]|<>#" else " " if c == "\n" else c for c in text)


def _latex(runs: Sequence[Run]) -> str:
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{tabular}{lllrrr}",
        r"\toprule",
        " & ".join(_HEADINGS) + r" \\",
        r"\midrule",
        *(" & ".join(_latex_text(c) for c in row) + r" \\" for row in _cells(runs)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "∞": r"$\infty$",
    "−": r"$-$",
    "–": "--",
    "\n": " ",
}


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


FORMATS: dict[str, Callable[[Sequence[Run]], str]] = {
    "md": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": _json,
}
