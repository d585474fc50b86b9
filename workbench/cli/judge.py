"""``workbench judge``: which of two replies a language model prefers, and how far its verdicts can be believed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from workbench.cli._shared import (
    BUDGET,
    COUNT,
    MODEL_OPTIONS,
    PATH,
    SEED,
    check_runs,
    complete,
    load_named,
    model_line,
    model_options,
    prompt_of,
    prompt_options,
    report_option,
    run_summary,
    stored_run,
    verdict,
)
from workbench.errors import WorkbenchError
from workbench.paths import check_output
from workbench.terminal import counted, say, say_json, shows_progress

__all__ = ["command"]


@click.command(name="judge")
@click.argument("model", required=False)
@click.option(
    "--data",
    help="hh_rlhf, preferences, hub:NAME or a table: prompt, chosen, rejected; or prompt, first, second unjudged.",
)
@click.option("--data-dir", type=PATH, help="Folder of a data set by name.")
@click.option("--split", help="Its part, or the split of a set on the hub.")
@click.option("--limit", type=COUNT, help="Only the first N pairs.")
@click.option(
    "--template", type=PATH, help="Text file of what the judge reads, with {prompt} {first} {second}."
)
@click.option("--pairs", type=PATH, help="Write the judge's own preferences as JSONL, to align a model with.")
@click.option("--consistent", is_flag=True, help="Of --pairs: only verdicts that survive the swap.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of intervals.")
@prompt_options
@model_options
@click.option(
    "--batch-tokens",
    type=BUDGET,
    default="auto",
    show_default=True,
    help="Tokens of one forward pass, or auto.",
)
@click.option("--out", type=PATH, help="Folder that gets the run folder (default: runs/).")
@report_option
@click.option("--resume", help="Resume an interrupted run: its folder or id.")
@click.option("--no-doctor", is_flag=True, help="Skip the numeric self-check; the run says so.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def command(context: click.Context, /, **_options: Any) -> None:
    """Ask MODEL which of two replies is better, in both orders, and store the run.

    The verdict is the sign of the mean log-odds of both orders. Consistency is the share of pairs whose verdict
    survives the swap; agreement and Cohen's kappa compare with what people prefer, where the data say so.

    \b
    workbench judge smollm2-135m --data hh_rlhf --data-dir DIR --limit 200
    workbench judge MODEL --data replies.jsonl --chat --pairs judged.jsonl --consistent
    workbench align MODEL --data judged.jsonl
    """
    values = _completed(context)
    run = _judge(values)
    count = _written(run, values)
    if values["as_json"]:
        say_json({**run_summary(run), "notes": run.notes})
    else:
        _print(run)
        if values["pairs"] is not None:
            say(f"{counted(count, 'preference')} of the judge written to {values['pairs']}")
    from workbench.runs.trackers import report_run

    report_run(run, values["report_to"] or ())


def _completed(context: click.Context) -> dict[str, Any]:
    """The options given; with ``--resume`` those that were not given come from the run's recipe."""
    from workbench.runs import shape_checked

    values = dict(context.params)
    run = stored_run("judge", values["resume"], values["out"])
    values["folder"] = None if run is None else run.path
    values["template_text"] = None
    if run is not None:
        with shape_checked(run):
            recipe, model = run.record.recipe_in_force, run.record.model
            names = ("data", "data_dir", "split", "limit", "seed", "chat", "system", "special_tokens")
            of_model = {name: model.get(name) for name in MODEL_OPTIONS}
            complete(context, values, {"model": model["name"], **{n: recipe[n] for n in names}, **of_model})
            values["template_text"] = recipe["template"]
    if not values["model"] or not values["data"]:
        raise WorkbenchError("name a MODEL and --data, or a --resume RUN; see: workbench judge --help")
    if values["consistent"] and values["pairs"] is None:
        raise WorkbenchError("--consistent is of --pairs FILE; leave it out, or add that")
    if values["pairs"] is not None:
        check_output(values["pairs"], (".jsonl",))
    check_runs(values["out"])
    return values


def _judge(values: dict[str, Any]) -> Any:
    from workbench.data.files import read_text
    from workbench.data.preferences import read_replies
    from workbench.evaluate.judge import JudgeSettings, judge

    given = {"limit": values["limit"], "seed": values["seed"], **prompt_of(values)}
    if values["template"] is not None:
        given["template"] = read_text(values["template"]).rstrip("\n")
    elif values["template_text"] is not None:
        given["template"] = values["template_text"]
    settings = JudgeSettings(**given)
    place = {"data_dir": values["data_dir"], "split": values["split"]}
    read_replies(values["data"], **place)  # what is wrong with the data is reported before a model is loaded
    return judge(
        load_named(values["model"], values),
        values["data"],
        settings,
        **place,
        out=values["out"],
        resume=values["folder"],
        batch_tokens=values["batch_tokens"],
        doctor=not values["no_doctor"],
        progress=shows_progress(),
    )


def _written(run: Any, values: dict[str, Any]) -> int:
    from workbench.evaluate.judge import write_judged

    path: Path | None = values["pairs"]
    return 0 if path is None else write_judged(run, path, consistent=values["consistent"])


def _print(run: Any) -> None:
    from workbench.cli._tables import results_table

    say(f"{model_line(run)}, doctor: {verdict(run)}")
    say("\n" + results_table(run.results))
    left_out = {fault: count for fault, count in run.notes["left_out"].items() if count}
    if left_out:
        said = ", ".join(f"{count} with {fault} replies" for fault, count in left_out.items())
        say(f"left out, as they have no two different replies: {said}")
    if run.notes["truncated"]:
        say(f"{counted(run.notes['truncated'], 'pair')} truncated at the beginning to fit the model")
    say(f"\n{run.throughput['tokens_per_second']:,.0f} tokens/s; run stored in {run.path}")
    say(f"next: workbench report {shlex.quote(str(run.path))}")
