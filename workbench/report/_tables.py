"""The results of runs as a table, in the formats that papers and scripts take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.errors import RunError, WorkbenchError, did_you_mean
from workbench.report._sections import flatten, result_rows, shown, visible
from workbench.runs import Run, RunState, list_runs, reads_runs

__all__ = ["FORMATS", "model_card", "render_table", "results_frame", "runs_of"]

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
        raise WorkbenchError(
            f"unknown --format {form!r}; {did_you_mean(form, ['html', 'lm-eval', *FORMATS])}"
        )
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


# a run's verb -> the hub's name of the kind of task
_KINDS = {
    "evaluate": "text-generation",
    "check": "text-classification",
    "probe": "feature-extraction",
    "finetune": "text-classification",
}


def runs_of(model: str, root: Path | None = None) -> list[Run]:
    """The complete runs of ``model`` under ``root``, oldest first.

    Raises :class:`~workbench.errors.RunError` if there is none; the message names the models that have runs.
    """
    complete = [run for run in list_runs(root) if run.state is RunState.COMPLETE and run.record is not None]
    names = {str(run.record.model.get("name", "")) for run in complete if run.record is not None}
    chosen = [Run.open(run.path) for run in complete if run.record and run.record.model.get("name") == model]
    if not chosen:
        raise RunError(
            f"no complete run of {model!r}; stored are runs of {', '.join(sorted(filter(None, names))) or 'no model'}; "
            f"make one with: workbench evaluate {model} --task lambada_sample"
        )
    return chosen


def model_card(model: str, runs: Sequence[Run], *, about: dict[str, Any] | None = None) -> str:
    """Metadata as YAML (with the hub's ``model-index`` of results), then the same for people, as Markdown.

    ``about`` is how the model was made, as a bundled model's ``card.json`` tells it. Everything else comes from
    ``runs``; what was not measured is not mentioned.
    """
    from huggingface_hub import EvalResult, ModelCardData

    details = about or {}
    results = [
        EvalResult(
            task_type=_KINDS.get(run.record.verb, "other"),
            dataset_type=visible(task),
            dataset_name=visible(task),
            metric_type=visible(metric),
            metric_value=round(estimate.value, 6),
        )
        for run in runs
        for task, metrics in run.results.items()
        for metric, estimate in metrics.items()
        if estimate.value == estimate.value
    ]
    data = ModelCardData(model_name=model, library_name="transformers", eval_results=results or None)
    return f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(_body(model, runs, details)) + "\n"


def _body(model: str, runs: Sequence[Run], details: dict[str, Any]) -> Iterator[str]:
    yield f"# {_plain(model)}\n"
    if details.get("about"):
        yield f"{_plain(str(details['about']))}\n"
    yield "## Model\n"
    yield from _list(flatten(_newest(runs, "model")))
    if details:
        yield "\n## Training\n"
        skipped = ("about", "name", "loss_curve", "results", "packages")
        yield from _list(flatten({k: v for k, v in details.items() if k not in skipped}))
    yield "\n## Evaluation\n"
    yield "Each value with its 95 % interval, measured by transformer-workbench.\n"
    yield render_table(runs, "md")
    yield "## How it was measured\n"
    for run in runs:
        doctor = (run.record.doctor or {}).get("verdict", "not run")
        data = shown([f"{name}: {value}" for name, value in flatten(run.record.data)])
        yield f"- {_plain(run.record.id)} (`{run.record.verb}`, doctor: {doctor}); data: {_plain(data)}"


def _newest(runs: Sequence[Run], field: str) -> dict[str, Any]:
    value = getattr(runs[-1].record, field)
    assert isinstance(value, dict)
    return value


def _list(rows: list[tuple[str, str]]) -> Iterator[str]:
    for name, value in rows:
        yield f"- {_plain(name)}: {_plain(value)}"


def _plain(text: str) -> str:
    """On one line, with the signs that Markdown or HTML would read escaped."""
    return "".join(f"\\{c}" if c in r"\`*[]|<>#" else " " if c == "\n" else c for c in visible(text))
