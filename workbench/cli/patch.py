"""``workbench patch``: which activations of a clean text bring its answer back in a corrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import (
    PATH,
    PLACE,
    check_figure,
    load_named,
    model_line,
    model_options,
    model_record,
    prompt_options,
    saved,
)
from workbench.errors import WorkbenchError
from workbench.terminal import say, say_json, shows_progress

if TYPE_CHECKING:
    from workbench.analysis.patching import PatchPair
    from workbench.statistics import Statistic

__all__ = ["command"]

_STRONGEST = 8


@click.command(name="patch")
@click.argument("model")
@click.option("--clean", required=True, help="The text whose answer patching brings back.")
@click.option("--corrupted", required=True, help="The text that is patched, of as many tokens.")
@click.option("--target", required=True, help='What the clean text calls for, such as " are"; a label.')
@click.option("--contrast", help='What the corrupted text calls for, such as " is".')
@click.option(
    "--site",
    type=click.Choice(["residual", "attention_out", "mlp_out", "head"]),
    default="residual",
    show_default=True,
    help="What is exchanged; head gives layer by head, the others layer by position.",
)
@click.option(
    "--method",
    type=click.Choice(["activation", "attribution", "path", "mean_ablation"]),
    default="activation",
    show_default=True,
    help="attribution: the fast estimate by gradients.",
)
@click.option(
    "--metric",
    type=click.Choice(["logit_difference", "probability", "log_probability"]),
    help="logit_difference where there is a contrast, else probability.",
)
@click.option("--receiver", default="output", show_default=True, help="Of path: 5.3, mlp 5, attention 5.")
@click.option("--sender", "senders", multiple=True, help="Of path: a head as 5.3, or mlp 5; all heads else.")
@click.option(
    "--mlps",
    type=click.Choice(["recomputed", "frozen"]),
    help="Of path: whether feed-forward parts are part of a path (recomputed, the default) or not.",
)
@click.option(
    "--mean",
    type=click.Choice(["tokens", "positions"]),
    help="Of mean_ablation: one mean over all tokens (the default), or one a position.",
)
@click.option(
    "--samples", type=PATH, help="Of mean_ablation: texts of the mean, one a line. Default: the two given."
)
@click.option("--position", type=PLACE, help="Place that predicts. Default: the last, or the mask.")
@click.option("--target-text", help="What an encoder-decoder's decoder has said before the target.")
@click.option("--stack", type=click.Choice(["encoder", "decoder"]), help="Of an encoder-decoder.")
@click.option("--out", type=PATH, help="File: .html, .svg, .png, .pdf or .csv.")
@prompt_options
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(model: str, as_json: bool, **options: Any) -> None:
    """Put activations of the clean text into the corrupted one, one by one, and see what comes back.

    0 is the corrupted run's answer and 1 the clean one's. Both texts need the same number of tokens. A target of
    several pieces is measured by its first, and the result says so. Computed in float32 unless --dtype says
    otherwise.

    Paths run from each head to the receiver through residual connections and feed-forward parts, all other heads held
    at the corrupted text's values (Wang et al. 2022); --mlps frozen leaves the residual connections alone. Mean
    ablation takes one mean over all tokens, or with --mean positions one at each position, over samples of a template
    that are as long as the pair (Wang et al. 2022).

    \b
    workbench patch smollm2-135m --clean "The keys to the cabinet" --corrupted "The key to the cabinet" \\
      --target " are" --contrast " is" --out patch.html
    """
    from workbench.analysis.patching import patch_pair

    _check(options)
    samples = _samples(options["samples"])
    loaded = load_named(model, options)
    names = ("metric", "position", "target_text", "stack")
    pair = patch_pair(
        loaded,
        options["clean"],
        options["corrupted"],
        options["target"],
        options["contrast"],
        **{name: options[name] for name in names},
        keep=options["site"] if options["method"] == "attribution" else None,
    )
    effects = _effects(pair, options, samples)
    path = None if options["out"] is None else _drawn(effects, options["out"])
    _say(pair, effects, path, as_json)


def _check(options: dict[str, Any]) -> None:
    """What can be said against the options before a model is loaded."""
    from workbench.analysis.patching import component

    check_figure(options["out"])
    receiver, senders = options["receiver"], options["senders"]
    if options["method"] != "path" and (senders or receiver != "output" or options["mlps"]):
        raise WorkbenchError(
            "--sender, --receiver and --mlps are of --method path; leave them out, or add it"
        )
    if options["method"] != "mean_ablation" and (options["samples"] or options["mean"]):
        raise WorkbenchError("--mean and --samples are of --method mean_ablation; leave them out, or add it")
    for name in (*senders, *([] if receiver == "output" else [receiver])):
        component(name)
    if senders and options["out"] is not None:
        raise WorkbenchError("paths from named senders are numbers, not a grid; leave out --out or --sender")


def _samples(path: Path | None) -> list[str] | None:
    from workbench.data.corpus import read_corpus

    return None if path is None else read_corpus(path).texts


def _effects(pair: PatchPair, options: dict[str, Any], samples: list[str] | None) -> Statistic:
    from tqdm.auto import tqdm

    from workbench.analysis.patching import patch_effects

    return patch_effects(
        pair,
        options["method"],
        options["site"],
        senders=options["senders"],
        receiver=options["receiver"],
        mlps=options["mlps"],
        mean=options["mean"],
        samples=samples,
        progress=lambda batches: tqdm(batches, unit="batch", leave=False, disable=not shows_progress()),
    )


def _drawn(effects: Statistic, out: Path) -> Path:
    from workbench.figures.patching import patching_grid

    return saved(patching_grid(effects), out)


def _say(pair: PatchPair, effects: Statistic, path: Path | None, as_json: bool) -> None:
    frame = effects.to_frame()
    order = frame["value"].abs().sort_values(ascending=False, kind="stable").index
    if as_json:
        said = {
            "file": None if path is None else str(path),
            "model": model_record(pair.model),
            "name": effects.name,
            "metric": pair.metric.about,
            "clean": pair.clean_value,
            "corrupted": pair.corrupted_value,
            "notes": list(pair.metric.notes),
            "effects": frame.to_dict(orient="records"),
        }
        say_json(said, default=str)
        return
    from workbench.cli._tables import table

    say(f"{model_line(pair.model)}: {effects.note}\n")
    say(table(frame.columns, frame.loc[order[:_STRONGEST]].itertuples(index=False)))
    say(f"\n{effects.name}; 0 is the corrupted answer, 1 the clean one")
    say(str(path) if path else "draw it with --out patch.html")
