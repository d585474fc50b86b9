"""``workbench evaluate``: a model on tasks, stored as a run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from workbench.cli._shared import (
    BUDGET,
    COUNT,
    MODEL_OPTIONS,
    PATH,
    SEED,
    SEEDS,
    Whole,
    check_runs,
    complete,
    load_subject,
    model_line,
    model_options,
    prompt_options,
    refuse_prompt,
    report_option,
    run_summary,
    set_options,
    set_remarks,
    stored_run,
    verdict,
)
from workbench.errors import WorkbenchError
from workbench.paths import check_output
from workbench.terminal import counted, say, say_json, shows_progress

if TYPE_CHECKING:
    from workbench.evaluate import EvaluateSettings
    from workbench.runs import Run

__all__ = ["command", "print_run"]


@click.command(name="evaluate")
@click.argument("model", required=False)
@click.option(
    "--task",
    "tasks",
    help="Task names, YAML files, tables of rows or hub:NAME, separated by commas; see: workbench tasks.",
)
@click.option("--data-dir", type=PATH, help="Folder with the tasks' data files.")
@click.option(
    "--limit", type=COUNT, help="Only the first N items of each task, spread over its subjects by --seed."
)
@click.option(
    "--seed",
    type=SEED,
    default=0,
    show_default=True,
    help="Seed of intervals, of few-shot examples, of samples.",
)
@click.option("--shots", type=Whole(0, 100), help="Examples before each question (default: the task's own).")
@click.option("--split", help="train, validation or test (default: the task's own).")
@click.option("--stride", type=COUNT, help="Tokens scored in each window of a long text.")
@click.option("--judge", help="Text classifier that rates generated text.")
@set_options
@click.option("--finetune", is_flag=True, help="Train a head on the task's train split first.")
@click.option(
    "--seeds", type=SEEDS, default="0", show_default=True, help="Seeds of training, separated by commas."
)
@click.option("--recipe", type=PATH, help="YAML file that says how each task is trained.")
@click.option("--train-limit", type=COUNT, help="Only the first N rows to train on.")
@click.option("--submission", type=PATH, help="Write GLUE's test-set archive (with --split test).")
@click.option(
    "--boundary",
    type=click.Choice(["joint", "separate"]),
    default="joint",
    show_default=True,
    help="Tokenize context and continuation as one text, as lm-eval does, or each by itself.",
)
@click.option("--first-token", default="auto", show_default=True, help="auto, bos, prefix or unscored.")
@click.option(
    "--keep-bos",
    is_flag=True,
    help="BOS in front of every window of a long text and of truncated contexts, which lm-eval leaves out.",
)
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
@click.option(
    "--export",
    type=click.Choice(["lm-eval"]),
    help="Also write results and samples in lm-eval's layout, in the run's folder.",
)
@report_option
@click.option("--resume", help="Resume an interrupted run: its folder or id.")
@click.option("--over-steps", is_flag=True, help="Every checkpoint that the training run MODEL kept.")
@click.option("--no-doctor", is_flag=True, help="Skip the numeric self-check; the run says so.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def command(context: click.Context, /, **_options: Any) -> None:
    """Evaluate MODEL on one or more tasks and store the run.

    In --chat format a prompt, its examples included, is one user message, and what follows the generation prompt is
    scored, as with lm-eval's --apply_chat_template and --system_instruction: choices without the blank before them, a
    single continuation with it, and the line break that ends the generation prompt too (not with --boundary separate).
    Special tokens are the template's alone. A description that an lm-eval task (harness:NAME) has begins the message;
    lm-eval writes it into the system message.

    \b
    workbench evaluate smollm2-135m --task lambada_sample
    workbench evaluate smollm2-135m --task questions.jsonl
    workbench evaluate smollm2-135m --task lambada_openai --data-dir DIR --limit 300 --dtype float32 --json
    workbench evaluate --resume runs/RUN
    """
    arguments = _Arguments(context)
    _check(context, arguments)
    if arguments["over_steps"] or str(arguments["model"]).endswith("@step-*"):
        from workbench.cli._over_steps import over_steps

        names = ("model", "out", "dtype", "device")
        over_steps(settings=_settings(arguments), **{name: arguments[name] for name in names})
        return
    from workbench.runs.trackers import report_run

    run = _finetune(arguments) if arguments["finetune"] else _evaluate(arguments)
    if int(os.environ.get("RANK", "0")):
        return  # one of several processes: the first one tells
    if arguments["submission"] is not None:
        _submit(run, arguments["submission"])
    if arguments["export"] is not None:
        _export(run)
    if arguments["as_json"]:
        say_json({**run_summary(run), "policy": scoring_policy(run)})
    else:
        print_run(run)
    report_run(run, arguments["report_to"] or ())


class _Arguments:
    """The options given, completed from the run that is resumed: what is not given comes from its recipe."""

    def __init__(self, context: click.Context) -> None:
        self.values = dict(context.params)
        run = stored_run("evaluate", self.values["resume"], self.values["out"])
        self.folder = None if run is None else run.path
        if run is not None:
            complete(context, self.values, _stored(run))
        missing = [name for name in ("model", "tasks") if not self.values[name]]
        if missing:
            raise WorkbenchError(
                "name a MODEL and a --task, or a --resume RUN; see: workbench evaluate --help"
            )

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def _check(context: click.Context, arguments: _Arguments) -> None:
    """Options that do not go together, and places that cannot be written, before anything is loaded."""
    for name in ("seeds", "recipe", "train_limit"):
        if not arguments["finetune"] and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise WorkbenchError(f"--{name.replace('_', '-')} is of --finetune; leave it out, or add that")
    if arguments["finetune"]:
        refuse_prompt(arguments.values, "--finetune")
    if arguments["submission"] is not None:
        check_output(arguments["submission"])
        if arguments["split"] != "test":
            raise WorkbenchError("--submission is made of the test sets; add --split test")
    for name in ("export", "report_to"):
        if arguments["over_steps"] and arguments[name]:
            raise WorkbenchError(
                f"--{name.replace('_', '-')} is of one run, --over-steps makes several; leave it out"
            )
    check_runs(arguments["out"])


def _stored(run: Run) -> dict[str, Any]:
    """The command-line options that made the run."""
    from workbench.runs import shape_checked

    with shape_checked(run):
        return _options_of(run.record.recipe_in_force, run.record.model)


def _options_of(recipe: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    from workbench.evaluate import TaskOptions

    return {
        "model": model["name"],
        "tasks": ",".join(recipe["tasks"]),
        "data_dir": recipe["data_dir"],
        "limit": recipe["limit"],
        "seed": recipe["seed"],
        **{name: recipe.get(name) for name in (*TaskOptions.names(), "special_tokens")},
        "first_token": recipe["first_token"],
        "boundary": recipe["boundary"],
        "keep_bos": recipe["keep_bos"],
        **{name: model.get(name) for name in MODEL_OPTIONS},
    }


def _settings(arguments: _Arguments) -> EvaluateSettings:
    from workbench.evaluate import EvaluateSettings, TaskOptions

    return EvaluateSettings(
        tasks=tuple(name.strip() for name in arguments["tasks"].split(",") if name.strip()),
        data_dir=None if arguments["data_dir"] is None else str(arguments["data_dir"]),
        limit=arguments["limit"],
        seed=arguments["seed"],
        first_token=arguments["first_token"],
        boundary=arguments["boundary"],
        keep_bos=arguments["keep_bos"],
        **{name: arguments[name] for name in (*TaskOptions.names(), "special_tokens")},
    )


def _evaluate(arguments: _Arguments) -> Any:
    from workbench.evaluate import evaluate, read_data
    from workbench.evaluate.processes import Processes

    Processes.current()  # under torchrun: this process's device, before the model is loaded
    settings = _settings(arguments)
    data = read_data(settings)  # unknown tasks and broken files are reported before a model is loaded
    model = load_subject(arguments["model"], arguments.values)
    return evaluate(
        model,
        settings,
        data=data,
        out=arguments["out"],
        resume=arguments.folder,
        batch_tokens=arguments["batch_tokens"],
        doctor=not arguments["no_doctor"],
        progress=shows_progress(),
    )


def _submit(run: Any, path: Path) -> None:
    from workbench.evaluate.submission import missing_files, submission_files, write_submission

    write_submission(run, path)
    missing = missing_files(submission_files(run.examples()))
    rest = f"; the server also wants {', '.join(missing)}" if missing else ""
    say(f"GLUE submission written to {path}{rest}", error=True)


def _export(run: Any) -> None:
    from workbench.evaluate.lm_eval_files import EXPORTED, write_lm_eval

    say(f"in lm-eval's layout: {write_lm_eval(run, run.path / EXPORTED)}", error=True)


def _finetune(arguments: _Arguments) -> Any:
    from workbench.evaluate.finetuned import Finetuned, evaluate_finetuned, read_recipe

    def tell(task: str, seed: int, run: Any) -> None:
        values = ", ".join(f"{name} {e.cells()[0]}" for name, e in run.results[task].items())
        say(f"{task}, seed {seed}: {values}; {run.path}", error=True)

    training = Finetuned(
        recipe=read_recipe(arguments["recipe"]),
        seeds=arguments["seeds"],
        train_limit=arguments["train_limit"],
        tell=tell,
    )
    return evaluate_finetuned(
        arguments["model"],
        _settings(arguments),
        training,
        out=arguments["out"],
        device=arguments["device"],
        doctor=not arguments["no_doctor"],
        progress=shows_progress(),
    )


def _remarks(notes: dict[str, Any]) -> list[str]:
    """What a reader of the numbers should know."""
    found = [notes["resumed_by_name"]] if notes.get("resumed_by_name") else []
    if notes.get("ended_by_the_limit_of_tokens"):
        limited = counted(notes["ended_by_the_limit_of_tokens"], "text")
        found.append(f"{limited} ended by the task's limit of tokens only")
    if notes.get("truncated"):
        found.append(f"{counted(notes['truncated'], 'item')} truncated at the beginning to fit the model")
    found += [f"{task}: {line}" for task, lines in notes.get("remarks", {}).items() for line in lines]
    for task, of_set in notes.get("sets", {}).items():
        found += [f"{task}: {said}" for said in (of_set["policy"], *set_remarks(of_set))]
    for task, count in notes.get("spread_over", {}).items():
        found.append(f"{task}: the limit is spread over {counted(count, 'subject')}, drawn by --seed")
    for task, answer in notes.get("one_answer_throughout", {}).items():
        found.append(f"{task}: the model answers {answer!r} throughout")
    for task, count in (notes.get("begin_inside_a_token") or {}).items():
        found.append(
            f"{task}: {counted(count, 'item')} with a continuation that begins inside a token, so only what follows "
            "that token is scored, as lm-eval does; --boundary separate scores all of it"
        )
    if notes.get("left_out_for_want_of_data"):
        found.append(f"left out, as their files are missing: {', '.join(notes['left_out_for_want_of_data'])}")
    return found


# What a continuation's tokens are, and what the first token of a text is predicted from, in words.
_BOUNDARIES = {
    "joint": "context and continuation tokenized as one text",
    "separate": "context and continuation tokenized apart",
}
_FIRST = {
    "bos": "BOS in front of every text",
    "prefix": "BOS, or else EOS, in front of texts without context",
    "unscored": "the first token of a text without context is not scored",
}


def scoring_policy(run: Run) -> str:
    """How a causal model's texts were scored: first token, boundary, and what is truncated; empty for others."""
    recipe = run.record.recipe_in_force
    first = str(run.record.model.get("first_token") or "")
    if not first:
        return ""
    long = "what is truncated, and later windows of a text, begin "
    long += "with BOS too" if recipe["keep_bos"] else "without BOS, as in lm-eval"
    boundary = _BOUNDARIES[recipe["boundary"]]
    chat = "; prompts in chat format, their reply scored" if recipe["chat"] else ""
    return f"scoring: first token {first} ({_FIRST[first]}); {boundary}{chat};\n{long}"


def print_run(run: Any) -> None:
    """The model, its results with intervals, and where the run lies."""
    from workbench.cli._tables import results_table

    model, doctor = run.record.model, verdict(run)
    say(f"{model_line(run)}, doctor: {doctor}")
    say("\n" + results_table(run.results))
    if policy := scoring_policy(run):
        say(policy)
    for remark in _remarks(run.notes):
        say(remark)
    unit = "items" if model.get("kind") == "function" else "tokens"  # a function's tokens are not seen
    rate = run.throughput.get(f"{unit}_per_second", 0.0)
    say(f"\n{rate:,.0f} {unit}/s; run stored in {run.path}")
    say(f"next: workbench report {shlex.quote(str(run.path))}")
    if doctor == "fail":
        say(f"warning: the doctor found faults; see: workbench doctor {model['name']}", error=True)
