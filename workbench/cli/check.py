"""``workbench check``: a model on a challenge set or a test suite, stored as a run."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import click

from workbench.cli._shared import (
    BUDGET,
    COUNT,
    INDEX,
    MODEL_OPTIONS,
    PATH,
    SEED,
    check_runs,
    complete,
    load_subject,
    model_line,
    model_options,
    prompt_options,
    refuse_prompt,
    run_summary,
    set_options,
    set_remarks,
    stored_run,
    verdict,
)
from workbench.errors import WorkbenchError
from workbench.paths import check_output
from workbench.terminal import counted, say, say_json, shows_progress

__all__ = ["command"]


@click.command(name="check")
@click.argument("model", required=False)
@click.option(
    "--set",
    "set_name",
    help="A challenge set (see: workbench sets), or a table (also hub:NAME) of minimal pairs or of a contrast set.",
)
@click.option("--columns", help="Columns of that table: GOOD,BAD or role=COLUMN,...")
@click.option(
    "--suite",
    help="A test suite: a name (sentiment, ...), a YAML or JSONL file, a folder of them, or all; or rewrites:NAME, the "
    "rules that rewrite the texts of a suite or task (glue/sst2).",
)
@click.option("--predictions", type=PATH, help="JSONL of predictions in place of MODEL.")
@click.option("--export", type=PATH, help="Write the suite's texts as JSONL and stop.")
@click.option("--data-dir", type=PATH, help="Folder with the set's files, or hub:owner/name[@REVISION].")
@click.option("--limit", type=COUNT, help="Only N items, spread over paradigms or tests by --seed.")
@set_options
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of samples.")
@click.option("--explain", type=INDEX, default=0, help="Explain the N worst failures.")
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
@click.option("--resume", help="Resume an interrupted run: its folder or id.")
@click.option("--no-doctor", is_flag=True, help="Skip the numeric self-check; the run says so.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def command(context: click.Context, /, **_options: Any) -> None:
    """Check MODEL on a challenge set or a test suite and store the run.

    In --chat format each sentence of a minimal pair is the reply to an empty message of the user, as with lm-eval's
    --apply_chat_template: a chat model is trained on its own turns, not on the user's. --system stands in front. A case
    of a suite is the user's message. Sets that score parts of a text (wsc, syntaxgym, cloze) take no --chat.

    \b
    workbench check smollm2-135m --set pairs_builtin --limit-per-paradigm 20
    workbench check smollm2-135m --set blimp --data-dir DIR --limit-per-paradigm 10 --convention lm-eval --json
    workbench check smollm2-135m --set pairs.tsv --columns better,worse
    workbench check smollm2-135m --suite sentiment
    workbench check mymodule:predict --suite sentiment
    workbench check sentiment-encoder --suite rewrites:glue/sst2 --data-dir DIR
    workbench check --suite sentiment --predictions FILE.jsonl
    """
    arguments = _completed(context)
    challenge = _challenge(arguments)
    if arguments["export"]:
        check_output(arguments["export"])
    else:
        check_runs(arguments["out"])
    if arguments["export"]:
        say(f"{counted(_export(challenge, arguments), 'text')} written to {arguments['export']}")
        return
    model, run = _check(challenge, arguments)
    if int(os.environ.get("RANK", "0")):
        return  # one of several processes: the first one prints
    explanations = _explain(run, model, arguments["explain"])
    if arguments["as_json"]:
        say_json({**summary(run), **explanations})
    else:
        _print(run)
        for text in explanations.get("explanations", []):
            say(f"\n{text['summary']}")


def _completed(context: click.Context) -> dict[str, Any]:
    """The options given; with ``--resume`` those that were not given come from the run's recipe."""
    from workbench.runs import shape_checked

    values = dict(context.params)
    run = stored_run("check", values["resume"], values["out"])
    values["folder"] = None if run is None else run.path
    if run is not None:
        with shape_checked(run):
            complete(context, values, _stored(run.record))
    if bool(values["set_name"]) == bool(values["suite"]):
        raise WorkbenchError("name one of --set and --suite; see: workbench check --help")
    if not values["model"] and not values["predictions"] and not values["export"]:
        raise WorkbenchError("name a MODEL, or give --predictions FILE with a --suite")
    for option in ("explain", "predictions"):
        if values[option]:
            refuse_prompt(values, f"--{option}")
    return values


def _stored(record: Any) -> dict[str, Any]:
    from challenge_sets.checking import IN_RECIPE

    recipe, model = record.recipe_in_force, record.model
    return {
        "model": None if model.get("kind") == "predictions" else model["name"],
        "set_name": None if recipe.get("suite") else recipe.get("file") or recipe["set"],
        "columns": recipe.get("columns"),
        "suite": recipe.get("suite"),
        "predictions": model["name"] if model.get("kind") == "predictions" else None,
        **{name: model.get(name) for name in MODEL_OPTIONS},
        **{name: recipe[name] for name in IN_RECIPE},
    }


def _challenge(arguments: dict[str, Any]) -> Any:
    """The set or suite with its options, found before a model is loaded."""
    from challenge_sets.checking import IN_RECIPE, find_set, find_suites
    from workbench.evaluate import TaskOptions

    values = {name: arguments[name] for name in IN_RECIPE}
    values["data_dir"] = None if values["data_dir"] is None else str(values["data_dir"])
    options = TaskOptions(**values)
    if not arguments["set_name"]:
        if arguments["columns"]:
            raise WorkbenchError("--columns is of --set FILE; leave it out")
        return find_suites(arguments["suite"], options)
    if arguments["predictions"] or arguments["export"]:
        raise WorkbenchError("--predictions and --export go with --suite, not with --set")
    return find_set(arguments["set_name"], options, arguments["columns"])


def _check(challenge: Any, arguments: dict[str, Any]) -> tuple[Any, Any]:
    from challenge_sets.checking import check, check_predictions
    from workbench.evaluate.processes import Processes
    from workbench.models import as_model

    if arguments["predictions"]:
        return None, check_predictions(
            arguments["predictions"], challenge, out=arguments["out"], resume=arguments["folder"]
        )
    Processes.current()  # under torchrun: this process's device, before the model is loaded
    challenge.load(None)  # what is wrong with the data is reported before a model is loaded
    model = load_subject(arguments["model"], arguments)
    if arguments["explain"]:
        as_model(model)  # a function is refused before the check, not after it
    run = check(
        model,
        challenge,
        out=arguments["out"],
        resume=arguments["folder"],
        batch_tokens=arguments["batch_tokens"],
        doctor=not arguments["no_doctor"],
        progress=shows_progress(),
    )
    return model, run


def _export(challenge: Any, arguments: dict[str, Any]) -> int:
    from challenge_sets.suite import export_texts

    return export_texts(challenge, arguments["export"])


def _explain(run: Any, model: Any, count: int) -> dict[str, Any]:
    if not count or model is None:
        return {}
    from challenge_sets.explanations import explain_failures

    return {"explanations": [found.to_dict() for found in explain_failures(run, model, count)]}


def summary(run: Any) -> dict[str, Any]:
    """What ``--json`` prints: what it prints of every run, published numbers and what the set says of itself."""
    from challenge_sets.tables import rules_table

    rules = rules_table(run)
    return {
        **run_summary(run),
        **({} if rules.empty else {"rules": json.loads(rules.to_json(orient="records"))}),
        "published": run.notes.get("published", {}),
        "tests": run.notes.get("tests", {}),
        "policy": run.notes.get("policy", ""),
        "ties": run.notes.get("ties", 0),
        "remarks": set_remarks(run.notes),
    }


def _print(run: Any) -> None:
    from challenge_sets.tables import failing, groups_table, rules_table, suite_table
    from workbench.cli._tables import failures_text, groups_text, reasons_text, rules_text, tests_text

    model, doctor = run.record.model, verdict(run)
    say(f"{model_line(run)}, doctor: {doctor}")
    say(f"{run.notes.get('policy', '')}\n")
    suite, rules = suite_table(run), rules_table(run)
    tests = (tests_text(suite), reasons_text(suite)) if run.notes.get("tests") else ()
    found = (failures_text(failing(run)), *tests) if rules.empty else (rules_text(rules), reasons_text(suite))
    for text in (*found, groups_text(groups_table(run))):
        if text:
            say(f"{text}\n")
    for remark in set_remarks(run.notes):
        say(remark)
    throughput = run.throughput
    rate = throughput.get("items_per_second", 0.0)
    say(f"{counted(throughput.get('items', 0), 'item')}, {rate:,.1f} a second; run stored in {run.path}")
    say(f"next: workbench report {shlex.quote(str(run.path))}")
    if doctor == "fail":
        say(f"warning: the doctor found faults; see: workbench doctor {model['name']}", error=True)
