"""``workbench probe``: what each layer of a model knows of a property, with controls, as a stored run."""

from __future__ import annotations

import shlex
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
    verdict,
)
from workbench.errors import WorkbenchError
from workbench.terminal import say, say_json, shows_progress

if TYPE_CHECKING:
    from probes import ProbeReport, ProbeSettings
    from workbench.runs import Run

__all__ = ["command"]


@click.command(name="probe")
@click.argument("model", required=False)
@click.option("--task", help="pos, deprel, number, tree_depth, …; see: workbench probe --list.")
@click.option(
    "--data", help="File in the task's format, or builtin: the grammar's sentences.  [default: builtin]"
)
@click.option("--train", help="A second file to train on; without it --data is split.")
@click.option(
    "--probe", "kind", help="linear, ridge, mlp, knn, mdl, scalar_mix, edge or structural.  [default: linear]"
)
@click.option("--layers", help="all, 0,3,6 or 0-6; layer 0 is the embeddings.  [default: all]")
@click.option(
    "--pool", help="Which token stands for a word: auto, first, last, mean or cls.  [default: auto]"
)
@click.option("--what", help="residual, attention_out, mlp_out or head:LAYER.HEAD.  [default: residual]")
@click.option("--stack", help="encoder or decoder, of an encoder-decoder.")
@click.option("--split", help="sentence, document or type (no word in both parts).  [default: sentence]")
@click.option("--seeds", type=COUNT, help="Draws of control labels and held-out sentences.  [default: 3]")
@click.option("--strengths", help="C of the linear probes: 0.01,1.  [default: 0.0001,0.001,0.01,0.1,1]")
@click.option("--limit", type=COUNT, help="Only the first N sentences of each file.")
@click.option("--seed", type=SEED, help="Seed of splits, control labels and intervals.  [default: 0]")
@click.option(
    "--no-random-weights", is_flag=True, help="Skip the control of the same model with random weights."
)
@click.option(
    "--over-steps",
    is_flag=True,
    help="Probe every kept checkpoint of MODEL, a folder with step-N; runs of the same are used again.",
)
@click.option("--no-doctor", is_flag=True, help="Skip the numeric self-check; the run says so.")
@click.option("--list", "listing", is_flag=True, help="List the tasks.")
@prompt_options
@model_options
@click.option("--out", type=PATH, help="Folder that gets the run folder (default: runs/).")
@click.option("--resume", help="Resume an interrupted run: its folder or id.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str | None, listing: bool, over_steps: bool, as_json: bool, **options: Any) -> None:
    """Ask what each layer of MODEL knows of a property, with the controls that make it believable.

    In --chat format each sentence is a user's message; its words are probed, the template's tokens are not.

    \b
    workbench probe minilm-l6 --task pos --data en_ewt-ud-dev.conllu
    workbench probe smollm2-135m --task deprel --data builtin --layers 0,10,20,30
    workbench probe minilm-l6 --probe structural --data en_ewt-ud-dev.conllu
    """
    if listing:
        say(_task_table())
    elif over_steps or (model or "").endswith("@step-*"):
        _over_steps(model, options, as_json)
    else:
        _print(_run(model, options), as_json)


def _task_table() -> str:
    from probes import TASKS
    from workbench.cli._tables import table

    rows = [(t.name, str(t.unit), t.formats, t.about) for t in map(TASKS.get, TASKS.names())]
    return table(("task", "item", "data", "label"), rows)


def _run(model: str | None, options: dict[str, Any], step: str | None = None) -> Run:
    from probes.run import read_inputs, run_probe, same_run, settings_of
    from workbench.runs import shape_checked

    run = stored_run("probe", options["resume"], options["out"])
    folder = None if run is None else run.path
    if run is not None:
        with shape_checked(run):
            settings = _settings(options, settings_of(run.record.recipe))
            stored = run.record.model
            model = model or stored["name"]
            options = {**options, **{k: stored[k] for k in MODEL_OPTIONS}}
    else:
        settings = _settings(options, None)
    if model is None:
        raise WorkbenchError("name a MODEL and a --task, or a --resume RUN; see: workbench probe --help")
    check_runs(options["out"])
    inputs = read_inputs(settings)  # wrong files and names are reported before a model is loaded
    loaded = load_named(step or model, {**options, **{name: getattr(settings, name) for name in PROMPT}})
    if step is not None:
        folder = same_run(options["out"], loaded, settings, inputs[1])
    return run_probe(
        loaded,
        settings,
        inputs,
        out=options["out"],
        resume=folder,
        doctor=not options["no_doctor"],
        progress=shows_progress(),
    )


# option -> field of the settings
_FIELDS = {
    **{n: n for n in ("task", "data", "train", "pool", "what", "stack", "split", "seeds", "limit", "seed")},
    "kind": "probe",
}


def _settings(options: dict[str, Any], stored: ProbeSettings | None) -> ProbeSettings:
    """What was given, completed from the resumed run, or else from the defaults."""
    from probes import ProbeSettings
    from probes.experiment import layers_of

    given = {field: options[name] for name, field in _FIELDS.items() if options[name] is not None}
    if options["layers"] is not None:
        given["layers"] = layers_of(options["layers"])
    if options["strengths"] is not None:
        given["strengths"] = _numbers(options["strengths"])
    given |= {name: options[name] for name in PROMPT if options[name] not in (None, False, "parse")}
    if options["no_random_weights"]:
        given["random_weights"] = False
    if stored is not None:
        return ProbeSettings(**{**stored.to_dict(), **given})
    if given.get("probe") == "structural":
        given["task"] = "trees"  # all of a sentence's relations: whatever the task labels, trees are read
    if "task" not in given:
        raise WorkbenchError("name a --task, such as --task pos; see: workbench probe --list")
    return ProbeSettings(**given)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise WorkbenchError(f"--strengths {text!r} are no numbers; write 0.01,1") from None


def _over_steps(model: str | None, options: dict[str, Any], as_json: bool) -> None:
    from probes import open_report, over_steps, steps_figure
    from workbench.models.names import checkpoints_of, step_of

    if model is None or options["resume"]:
        raise WorkbenchError("--over-steps needs a MODEL, and goes on by itself; leave --resume out")
    folders = checkpoints_of(model)
    bare = {**options, "no_random_weights": True, "no_doctor": True}
    runs = {step_of(f): _run(model, bare, str(f)) for f in folders}
    reports = {step: open_report(run) for step, run in runs.items()}
    statistic = over_steps(reports)
    first = next(iter(runs.values())).path
    figure = steps_figure(statistic).save(first / "figures" / "over_steps.html")
    if as_json:
        said = {"runs": {step: str(run.path) for step, run in runs.items()}, "figure": str(figure)}
        frame = statistic.to_frame()
        say_json({**said, "metric": statistic.name, "values": frame.to_dict("records")})
        return
    from workbench.cli._tables import table

    layers = [f"layer {n}" for n in statistic.labels["layer"]]
    rows = [
        (str(s), *(f"{v:.4f}" for v in row)) for s, row in zip(sorted(runs), statistic.values, strict=True)
    ]
    say(f"{statistic.note}: {statistic.name}\n\n{table(('step', *layers), rows)}\n\nfigure: {figure}")


def _print(run: Run, as_json: bool) -> None:
    from probes import open_report

    report = open_report(run)
    if as_json:
        say_json(_summary(run, report))
    else:
        say(report_text(report, run))


def _summary(run: Run, report: ProbeReport) -> dict[str, Any]:
    return {
        **run_summary(run),
        "metric": report.metric,
        "best_layer": report.best_layer,
        "conclusions": list(report.conclusions),
        "stated": list(report.stated),
    }


def report_text(report: ProbeReport, run: Run) -> str:
    """How it was made, the table of layers, baselines, and what may be concluded."""
    from workbench.cli._tables import table

    names = list(report.series)
    rows = [
        (str(layer), *(report.series[name][k].text() for name in names))
        for k, layer in enumerate(report.layers)
    ]
    others = [(name, e.text()) for part in (report.baselines, report.summary) for name, e in part.items()]
    parts = [
        f"{report.task} in {model_line(run)}, {report.probe} probe; doctor: {verdict(run)}\n"
        + "\n".join(report.stated),
        table(("layer", *names), rows),
        table(("for comparison", "value"), others) if others else "",
        "\n".join(f"- {line}" for line in report.conclusions),
        f"run stored in {run.path}\nnext: workbench report {shlex.quote(str(run.path))}",
    ]
    return "\n\n".join(filter(None, parts))
