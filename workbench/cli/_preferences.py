"""``workbench compare A B --preferences``: models by name, compared by whose replies are preferred."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import COUNT, NUMBER, PATH, check_runs, load_named, model_options, prompt_options
from workbench.errors import ConfigError, WorkbenchError
from workbench.terminal import counted, shows_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.cli._compare_views import Shown
    from workbench.evaluate.preferences import PreferenceComparison
    from workbench.runs import Run

__all__ = ["preference_options", "preferences"]

_OPTIONS = (
    click.option("--preferences", is_flag=True, help="Compare models, named instead of RUNs, by preference."),
    click.option(
        "--prompts", help="Of --preferences: a table with a column prompt, or a set such as hh_rlhf."
    ),
    click.option("--data-dir", type=PATH, help="Of --prompts: the folder with the files of a set."),
    click.option("--limit", type=COUNT, help="Of --prompts: the first so many."),
    click.option(
        "--replies", metavar="RUN", help="Of --preferences: a run whose replies are taken, not new ones."
    ),
    click.option("--max-tokens", type=COUNT, default=64, show_default=True, help="Of a reply, at most."),
    click.option(
        "--temperature", type=NUMBER, default=1.0, show_default=True, help="Of replies; 0 is greedy."
    ),
    click.option(
        "--top-p", type=NUMBER, default=1.0, show_default=True, help="Of replies: probability mass."
    ),
    click.option("--stop", multiple=True, metavar="TEXT", help="A reply ends before it; may be repeated."),
    click.option(
        "--ties",
        type=click.Choice(["half", "davidson"]),
        default="half",
        show_default=True,
        help="In strengths: half a win of either, or an outcome of its own.",
    ),
    click.option("--resume", metavar="RUN", help="Of --preferences: go on with an unfinished run."),
)
_SETTINGS = ("max_tokens", "temperature", "top_p", "stop", "seed", "limit")


def preference_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that ``--preferences`` adds to ``workbench compare``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return prompt_options(model_options(function))


def preferences(models: tuple[str, ...], root: Path | None, options: dict[str, Any]) -> Shown:
    """Replies, who prefers which, and the run that stores all of it."""
    from workbench.evaluate.preferences import compare_preferences
    from workbench.runs import Run, find_run

    _refuse_others(options)
    check_runs(root)
    by = options["by"]
    generates = options["replies"] is None and not (by or "").startswith("votes:")
    if generates and len(models) > 1 and options["prompts"] is None:
        raise ConfigError("--preferences needs --prompts FILE, --replies RUN or --by votes:RUN")
    named = [load_named(name, options) for name in models] if generates and len(set(models)) > 1 else models
    run = compare_preferences(
        list(named),
        options["prompts"],
        by,
        replies=None if options["replies"] is None else Run.open(options["replies"], root),
        ties=options["ties"],
        data_dir=options["data_dir"],
        out=root,
        resume=None if options["resume"] is None else find_run(options["resume"], root),
        progress=shows_progress(),
        **{name: options[name] for name in _SETTINGS},
    )
    return _shown(run)


def _refuse_others(options: dict[str, Any]) -> None:
    others = ("leaderboard", "agreement", "slices", "chosen", "calibration", "task", "metric")
    given = next((name for name in others if options[name]), None)
    if given is not None:
        name = "slice" if given == "chosen" else given
        raise WorkbenchError(
            f"--{name} is of stored runs and does not go with --preferences; leave one of them out"
        )


def _shown(run: Run) -> Shown:
    from workbench.cli._compare_views import Shown
    from workbench.cli._tables import results_table
    from workbench.evaluate.preferences import preferences_of

    prompts = run.throughput.get("prompts")
    stored = "votes" if prompts is None else f"replies to {counted(int(prompts), 'prompt')}"
    results = {task: {name: e.to_dict() for name, e in found.items()} for task, found in run.results.items()}
    record: dict[str, Any] = {"run": str(run.path), "results": results}
    if not run.notes.get("verdicts"):
        text = f"{results_table(run.results)}\n\n{stored} in {run.path}; vote on them: workbench dashboard"
        return Shown(text, record)
    found = preferences_of(run)
    lines = [_rates(found), "", *found.verdicts]
    if len(found.strengths.names) > 2:
        lines += ["", _strengths(found)]
    record |= {"pairs": [pair.to_dict() for pair in found.pairs]}
    record["elo"] = {name: e.to_dict() for name, e in found.strengths.elo().items()}
    return Shown(
        "\n".join([*lines, "", f"{stored}, preferred by {found.by}: {run.path}"]), record, found.figure
    )


def _rates(found: PreferenceComparison) -> str:
    """The table, and below it why a rate at equal lengths is undefined."""
    from workbench.cli._tables import table

    head = (
        "first",
        "second",
        "prompts",
        "wins",
        "losses",
        "ties",
        "win rate",
        "95 %",
        "at equal lengths",
        "95 %",
    )
    rows, reasons = [], []
    for pair in found.pairs:
        counts = (pair.prompts, pair.wins, pair.losses, pair.ties)
        controlled = pair.controlled
        if controlled is not None and math.isnan(controlled.value):
            reasons.append(f"{pair.first} and {pair.second} at equal lengths: {controlled.undefined}")
            controlled = None
        equal = ("-", "-") if controlled is None else (controlled.cells()[0], controlled.interval())
        rate = (pair.rate.cells()[0], pair.rate.interval())
        tested = (pair.test, f"{pair.p_value:.2g}", f"{pair.p_holm:.2g}")
        rows.append((pair.first, pair.second, *map(str, counts), *rate, *equal, *tested))
    return "\n".join([table((*head, "test", "p", "p Holm"), rows), *reasons])


def _strengths(found: PreferenceComparison) -> str:
    from workbench.cli._tables import table

    elo = sorted(found.strengths.elo().items(), key=lambda item: -item[1].value)
    logs = found.strengths.estimates()
    rows = [(name, e.cells(1)[0], e.interval(1), logs[name].text(3)) for name, e in elo]
    tied = "as half a win" if found.strengths.ties == "half" else "as Davidson 1970"
    title = f"strengths by Bradley and Terry's model, ties {tied}, intervals over prompts"
    return f"{title}\n{table(('model', 'Elo', '95 %', 'log-strength'), rows)}"
