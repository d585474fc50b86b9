"""``workbench compare``: stored runs beside one another, on the same items; or models by preference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._preferences import preference_options
from workbench.cli._shared import PATH, SEED
from workbench.errors import RunError
from workbench.terminal import say, say_json

if TYPE_CHECKING:
    from workbench.runs import Run

__all__ = ["command"]


@click.command("compare")
@click.argument("runs", nargs=-1)
@click.option("--task", help="Only this task.")
@click.option("--metric", help="Only this metric.")
@click.option("--root", type=PATH, help="Where runs lie (default: runs/).")
@click.option("--leaderboard", is_flag=True, help="Order the runs, ties grouped (without RUN: all runs).")
@click.option("--agreement", is_flag=True, help="How often two runs are right together; who alone is right.")
@click.option("--slices", is_flag=True, help="Each run's worst slices, corrected for the search.")
@click.option(
    "--by",
    help="The metric of each run by length, label, frequency, overlap, perplexity or a column. Of --preferences: who "
    "prefers, model:NAME[#LABEL], pattern:REGEX, python:module:function, judge:MODEL or votes:FILE|RUN.",
)
@click.option("--slice", "chosen", help="The metric of each run on one slice, such as label=1.")
@click.option("--calibration", is_flag=True, help="Calibration error, Brier score, temperature scaling.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of resampling, and of replies.")
@click.option("--figure", type=PATH, help="Draw it: FILE.html, .svg, .png, .pdf or .csv.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@preference_options
def command(runs: tuple[str, ...], root: Path | None, as_json: bool, figure: Path | None, **o: Any) -> None:
    """Compare RUNs (folders or ids) in pairs on the items they share, with tests and a verdict in words.

    \b
    workbench compare RUN RUN
    workbench compare --leaderboard --task piqa
    workbench compare RUN --slices

    With --preferences, compare models by whose replies to the same prompts are preferred: win rates with ties as half,
    also at equal lengths, and the strengths of several models.

    \b
    workbench compare MODEL MODEL --preferences --prompts FILE --by model:REWARD
    workbench compare MODEL MODEL --preferences --by votes:RUN
    """
    shown = _preferences(runs, root, o) if o["preferences"] else _of_runs(runs, root, o)
    if figure is not None:
        _draw(shown, figure)
    if as_json:
        say_json(shown.record)
    else:
        say(shown.text)


def _preferences(models: tuple[str, ...], root: Path | None, options: dict[str, Any]) -> Any:
    from workbench.cli._preferences import preferences

    return preferences(models, root, options)


def _of_runs(runs: tuple[str, ...], root: Path | None, o: dict[str, Any]) -> Any:
    from workbench.cli import _compare_views as views

    stored = _open(runs, root, everything=o["leaderboard"])
    options = {name: o[name] for name in ("task", "metric", "seed")}
    if o["leaderboard"]:
        return views.leaderboards(stored, **options)
    if o["agreement"]:
        return views.agreements(stored, **options)
    if o["slices"] or o["by"] or o["chosen"]:
        return views.sliced(stored, by=o["by"], chosen=o["chosen"], **options)
    if o["calibration"]:
        return views.calibrations(stored, task=o["task"], seed=o["seed"])
    return views.comparisons(stored, **options)


def _open(names: tuple[str, ...], root: Path | None, everything: bool) -> list[Run]:
    from workbench.runs import Run, RunState, default_root, list_runs

    if names:
        return [Run.open(name, root) for name in names]
    if not everything:
        raise RunError("name the RUNs to compare; list them with: workbench runs")
    summaries = list_runs(root or default_root())
    return [
        Run.open(summary.path)
        for summary in summaries
        if summary.state is RunState.COMPLETE
        and summary.record is not None
        and summary.record.verb == "evaluate"
    ]


def _draw(shown: Any, path: Path) -> None:
    if shown.draw is None:
        raise RunError("this view has no figure; drawn are comparisons, --agreement and --calibration")
    shown.draw().save(path)
    say(f"figure written to {path}", error=True)
