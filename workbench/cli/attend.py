"""``workbench attend``: a text's attention as a figure; every head's statistics over a corpus, or alignment error."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import (
    COUNT,
    INDEX,
    NUMBER,
    PATH,
    SEED,
    check_figure,
    check_runs,
    load_named,
    model_line,
    model_options,
    model_record,
    prompt_options,
    run_summary,
    saved,
)
from workbench.errors import WorkbenchError
from workbench.terminal import counted, say, say_json, shows_progress

if TYPE_CHECKING:
    from workbench.models import LoadedModel
    from workbench.runs import Run

__all__ = ["command"]


def _numbers(context: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Numbers separated by commas: ``0,3``."""
    if value is None:
        return None
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers; write 0,3") from None


@click.command(name="attend")
@click.argument("model")
@click.argument("text", required=False)
@click.option("--pair", help="A second text, read after the first as the model's tokenizer joins pairs.")
@click.option("--target", help="What an encoder-decoder's decoder reads. Default: what it generates.")
@click.option(
    "--view",
    type=click.Choice(["head", "model", "neuron", "alignment", "pooling"]),
    default="head",
    show_default=True,
    help="alignment: of target to source, for encoder-decoders; pooling: of a classifier's labels to the tokens.",
)
@click.option("--layer", type=INDEX, help="Layer shown first, from 0.")
@click.option("--heads", callback=_numbers, metavar="N,N", help="Heads shown first, from 0: 0,3.")
@click.option(
    "--include-layers", callback=_numbers, metavar="N,N", help="Only these layers, for long texts: 0,5."
)
@click.option("--words", is_flag=True, help="Start with sub-words merged to words.")
@click.option("--hide-sinks", is_flag=True, help="Start without the first token and separators.")
@click.option("--corpus", type=PATH, help="A text a line, a .conllu treebank, or hub:NAME.")
@click.option(
    "--alignment",
    type=PATH,
    help="Judge an encoder-decoder's heads on pairs: a table with source, target and alignment (0-1 1-0 1?2).",
)
@click.option("--limit", type=COUNT, help="Only the first N texts of the corpus, or pairs.")
@click.option(
    "--step",
    type=click.Choice(["predicts", "reads"]),
    default="predicts",
    show_default=True,
    help="Of alignments: whose attention is a target token's, the step that predicts it or that reads it.",
)
@click.option(
    "--threshold",
    type=NUMBER,
    help="With --alignment: link words from this attention on.  [default: the largest of each target word]",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the induction scores' tokens.")
@click.option(
    "--clusters",
    type=COUNT,
    help="Of a corpus, also: the heads in N groups by how alike they attend (Clark et al. 2019); see --limit.",
)
@click.option(
    "--importance",
    is_flag=True,
    help="Of a corpus, also: how much a causal model's loss depends on each head, by gradients (Michel et al. 2019).",
)
@click.option(
    "--over-steps",
    is_flag=True,
    help="Of a corpus: every kept checkpoint of MODEL, a folder with step-N; runs of the same are used again.",
)
@click.option("--statistic", help="With --over-steps: which one is shown.  [default: entropy]")
@click.option(
    "--out",
    type=PATH,
    help="Of a text: file to write, .html, .svg, .png, .pdf or .csv. Of a corpus: folder for runs.",
)
@prompt_options
@model_options
@click.option("--no-doctor", is_flag=True, help="Of a corpus: skip the numeric self-check; the run says so.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    model: str, text: str | None, corpus: Path | None, alignment: Path | None, as_json: bool, **options: Any
) -> None:
    """Show what MODEL attends to in TEXT, measure all of its heads over a corpus, or judge them as an alignment.

    Computed in float32 unless --dtype says otherwise. Attention shows where a model looks, not why it decides.

    \b
    workbench attend minilm-l6 "The animal was too tired." --view head --out head.html
    workbench attend minilm-l6 --corpus en_ewt-ud-dev.conllu --limit 500
    workbench attend minilm-l6 --corpus texts.txt --limit 50 --clusters 6
    workbench attend runs/mine --corpus texts.txt --over-steps --statistic "previous token"
    workbench attend grammar-transformer --alignment pairs.jsonl
    """
    if [text, corpus, alignment].count(None) != 2:
        raise WorkbenchError(
            "give one of a TEXT in quotes, --corpus FILE and --alignment FILE; see: workbench attend --help"
        )
    if alignment is not None:
        from workbench.cli._alignment import measure_alignment

        measure_alignment(model, alignment, options, as_json)
        return
    if options["threshold"] is not None:
        raise WorkbenchError("--threshold is of --alignment; leave it out")
    over_steps = options["over_steps"] = options["over_steps"] or model.endswith("@step-*")
    if options["statistic"] is not None and not over_steps:
        raise WorkbenchError("--statistic is of --over-steps; a run over a corpus stores all statistics")
    if corpus is None:
        _show_text(model, str(text), options, as_json)
    else:
        _measure(model, corpus, options, as_json)


def _show_text(name: str, text: str, options: dict[str, Any], as_json: bool) -> None:
    from workbench.figures.view_options import ViewKind, ViewOptions, trace_for, view_of

    out = options["out"]
    if out is None:
        raise WorkbenchError(
            f"name the file to write: --out {options['view']}.html (or .svg, .png, .pdf, .csv)"
        )
    check_figure(out)
    for option in ("limit", "clusters", "importance", "over_steps"):
        if options[option]:
            raise WorkbenchError(
                f"--{option.replace('_', '-')} is of a corpus; leave it out, or give --corpus FILE"
            )
    if options["view"] == "pooling":
        _show_pooling(name, text, options, as_json)
        return
    view_options = ViewOptions(
        kind=ViewKind(options["view"]),
        layer=options["layer"],
        heads=options["heads"],
        include_layers=options["include_layers"],
        merge_words=options["words"],
        hide_sinks=options["hide_sinks"],
        step=options["step"],
    )
    model = load_named(name, options)
    source = _source(text, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # truncated texts are reported below, in one line
        traced = trace_for(model, source, view_options, target=options["target"])
    saved(view_of(traced, view_options), out)
    if traced.truncated:
        say(f"note: {counted(traced.truncated, 'token')} truncated to fit into {model.name}", error=True)
    _say_file(model, options, len(traced[0].tokens), traced.truncated, as_json)


def _source(text: str, options: dict[str, Any]) -> Any:
    return text if options["pair"] is None else (text, options["pair"])


def _show_pooling(name: str, text: str, options: dict[str, Any], as_json: bool) -> None:
    from workbench.analysis.pooling import pooling_weights
    from workbench.figures import statistic_view

    for option in ("target", "layer", "heads", "include_layers", "words", "hide_sinks"):
        if options[option] not in (None, False):
            raise WorkbenchError(f"--{option.replace('_', '-')} is not of --view pooling; leave it out")
    model = load_named(name, options)
    found = pooling_weights(model, _source(text, options))
    saved(statistic_view(found), options["out"])
    _say_file(model, options, found.values.shape[1], 0, as_json)


def _say_file(model: LoadedModel, options: dict[str, Any], tokens: int, cut: int, as_json: bool) -> None:
    out = str(options["out"])
    if as_json:
        said = {"file": out, "view": options["view"], "model": model_record(model)}
        say_json({**said, "tokens": tokens, "cut": cut})
    else:
        say(f"{model_line(model)}: {counted(tokens, 'token')}\n{out}")


def _measure(name: str, corpus: Path, options: dict[str, Any], as_json: bool) -> None:
    from workbench.analysis.survey import SurveySettings, survey
    from workbench.data.corpus import read_corpus
    from workbench.evaluate.doctor import self_check

    for option in ("pair", "target", "layer", "heads", "include_layers"):
        if options[option] is not None:
            raise WorkbenchError(f"--{option.replace('_', '-')} is of a TEXT; leave it out with --corpus")
    check_runs(options["out"])
    settings = SurveySettings(
        corpus=str(corpus), **{key: options[key] for key in ("limit", "seed", "importance", "clusters")}
    )
    read_corpus(corpus, settings.limit)  # a wrong file is reported before a model is loaded
    if options["over_steps"]:
        from workbench.cli._over_steps import attend_over_steps

        statistic = options["statistic"] or "entropy"
        attend_over_steps(
            name, settings, statistic, lambda step: load_named(step, options), options["out"], as_json
        )
        return
    model = load_named(name, options)
    doctor = self_check(model, not options["no_doctor"], shows_progress())
    run = survey(model, settings, out=options["out"], doctor=doctor, progress=shows_progress())
    _save_figures(run)
    if as_json:
        say_json({**run_summary(run), "notes": run.notes})
    else:
        from workbench.cli._survey_text import survey_text

        say(survey_text(run))


def _save_figures(run: Run) -> None:
    from workbench.figures.stored import survey_figures
    from workbench.runs import RunFolder

    folder = RunFolder(run.path, run.record)
    for name, view in survey_figures(run).items():
        folder.save_figure(f"{name.strip('[]').replace(' ', '_')}.html", view.html.encode())
