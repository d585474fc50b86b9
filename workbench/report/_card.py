"""A model card in the hub's format, from what was measured and stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import RunError
from workbench.report._tables import render_table
from workbench.report._text import flatten, shown, visible
from workbench.runs import Run, RunState, list_runs

__all__ = ["model_card", "runs_of"]

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
