"""``workbench context``: how far back a model looks, as a stored run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import (
    COUNT,
    MODEL_OPTIONS,
    PATH,
    PROMPT,
    SEED,
    check_runs,
    load_named,
    model_line,
    model_options,
    prompt_options,
    run_summary,
    stored_run,
)
from workbench.errors import UnknownName, WorkbenchError
from workbench.terminal import counted, say, say_json, shows_progress

if TYPE_CHECKING:
    from workbench.analysis.context import ContextSettings
    from workbench.estimate import Estimate
    from workbench.runs import Run

__all__ = ["command"]


def _list(context: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _numbers(context: click.Context, option: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers; write 1,5,20") from None


@click.command(name="context")
@click.argument("model", required=False)
@click.option("--task", help="lambada_openai, lambada_standard or lambada_sample: their last words.")
@click.option("--text-file", type=PATH, help="Or a text: content words drawn from it.")
@click.option("--data-dir", type=PATH, help="Folder with the task's data file.")
@click.option("--limit", type=COUNT, help="Only the first N passages, or N words of a text (default 100).")
@click.option(
    "--operations",
    default="keep,shuffle all,drop content,drop function",
    show_default=True,
    callback=_list,
    help="keep, or drop, shuffle, replace with all, content, function.",
)
@click.option(
    "--distances", default="1,5,10,20,50", show_default=True, callback=_numbers, help="Words left intact."
)
@click.option("--window", type=COUNT, help="Change only N words beyond the distance, not all.")
@click.option("--longest", type=COUNT, default=200, show_default=True, help="Context of a text.")
@click.option("--first-token", default="auto", show_default=True, help="auto, bos, prefix or unscored.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the changes and the intervals.")
@prompt_options
@model_options
@click.option("--out", type=PATH, help="Folder that gets the run (default: runs/).")
@click.option("--resume", help="Resume an interrupted run: its folder or id; MODEL is not needed.")
@click.option("--no-doctor", is_flag=True, help="Skip the numeric self-check; the run says so.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str | None, as_json: bool, **options: Any) -> None:
    """Change what MODEL reads beyond a distance from the word it predicts, and measure what that costs.

    Words farther than a distance are dropped (keep: all of them), shuffled among themselves, or replaced by others of
    the data; all words, or only content or function words. Loss is in nats a target, accuracy is greedy. The effective
    context is the fewest words with which the loss, or the perplexity, is within 1 % of the full context's. In --chat
    format what is left of the context is the user's message, and the word begins the reply.

    \b
    workbench context smollm2-135m --task lambada_sample
    workbench context smollm2-135m --task lambada_openai --data-dir DIR --limit 300
    workbench context --resume runs/RUN
    """
    stored = stored_run("context", options["resume"], options["out"])
    run = _resumed(stored, options) if stored else _started(model, options)
    _save_figures(run)
    if as_json:
        say_json({**run_summary(run), "notes": run.notes})
    else:
        _print(run)


def _started(model: str | None, options: dict[str, Any]) -> Run:
    from workbench.analysis.context import ContextSettings
    from workbench.data import LAMBADA_VARIANTS

    task, file = options["task"], options["text_file"]
    if model is None or (task is None) == (file is None):
        raise WorkbenchError(
            "name a MODEL and either --task or --text-file, or a --resume RUN; see: workbench context --help"
        )
    if task is not None and task not in LAMBADA_VARIANTS:
        raise UnknownName("task", task, list(LAMBADA_VARIANTS), "context curves need last words to predict")
    if file is not None and options["data_dir"] is not None:
        raise WorkbenchError("--data-dir is of --task; leave it out with --text-file")
    names = ("limit", "operations", "distances", "window", "longest", "first_token", "seed", *PROMPT)
    settings = ContextSettings(
        source=task or str(file),
        data_dir=None if options["data_dir"] is None else str(options["data_dir"]),
        **{name: options[name] for name in names},
    )
    return _run(model, settings, options, None)


def _resumed(run: Run, options: dict[str, Any]) -> Run:
    from workbench.analysis.context import ContextSettings
    from workbench.runs import shape_checked

    record = run.record
    with shape_checked(run):
        recipe: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in record.recipe_in_force.items()
        }
        stored = {name: record.model[name] for name in MODEL_OPTIONS}
        name, settings = record.model["name"], ContextSettings(**recipe)
    return _run(name, settings, {**options, **stored}, run.path)


def _run(name: str, settings: ContextSettings, options: dict[str, Any], folder: Path | None) -> Run:
    from workbench.analysis.context import context_run, items_of_file, items_of_lambada
    from workbench.evaluate.doctor import self_check
    from workbench.models import Kind

    check_runs(options["out"])
    settings.conditions()  # wrong names and missing files are reported before a model is loaded
    if settings.source.startswith("lambada_"):
        items, identity = items_of_lambada(settings.source, settings.data_dir, settings.limit)
    else:
        count = 100 if settings.limit is None else settings.limit
        items, identity = items_of_file(settings.source, count, settings.longest, settings.seed)
    model = load_named(name, {**options, **{key: getattr(settings, key) for key in PROMPT}})
    model.require(Kind.CAUSAL, verb="context curves")
    return context_run(
        model,
        items,
        identity,
        settings,
        out=options["out"],
        resume=folder,
        doctor=self_check(model, not options["no_doctor"], shows_progress()),
        progress=shows_progress(),
    )


def _save_figures(run: Run) -> None:
    from workbench.analysis.context import context_points
    from workbench.figures.plots import context_curves
    from workbench.runs import RunFolder

    points = context_points(run.examples(), int(run.record.recipe["seed"]))
    if all(point.distance is None for point in points):
        return
    name, source = run.record.model["name"], next(iter(run.record.data))
    folder = RunFolder(run.path, run.record)
    for quantity in ("loss", "accuracy", "increase"):
        view = context_curves(points, quantity, title=f"Context curves: {name} on {source}")
        folder.save_figure(f"context_{quantity}.html", view.html.encode())


def _print(run: Run) -> None:
    from workbench.analysis.context import EFFECTIVE, context_points
    from workbench.cli._tables import table

    source = next(iter(run.record.data))
    say(f"{model_line(run)} on {counted(run.notes['items'], 'word')} of {source}\n")
    rows = [
        (
            p.curve,
            p.distance,
            p.loss.text(3),
            p.accuracy.text(3),
            "-" if p.increase is None else p.increase.text(3, "+"),
            f"{p.changed:.0%}",
        )
        for p in context_points(run.examples(), int(run.record.recipe["seed"]))
    ]
    header = ("curve", "distance", "loss (nats)", "accuracy", "loss above full", "items changed")
    say(f"{table(header, rows)}\n")
    for of, name in EFFECTIVE.items():
        if name in run.results[source]:
            say(_effective(run.results[source][name], of, max(run.record.recipe["distances"])))
    rate = run.throughput.get("tokens_per_second", 0.0)
    say(f"{rate:,.0f} tokens/s; run stored in {run.path}, curves in its figures folder")


def _effective(length: Estimate, of: str, most: int) -> str:
    value, low, high = (
        f"{n:.0f}" if math.isfinite(n) else f"more than {most}"
        for n in (length.value, length.low, length.high)
    )
    interval = f"interval undefined: {length.undefined}" if length.undefined else f"{low} to {high}"
    return f"effective context: {value} words ({interval}) keep the {of} within 1 % of the full context's"
