"""``workbench changes``: what training changed inside a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import (
    COUNT,
    PATH,
    SEED,
    check_figure,
    load_named,
    model_options,
    prompt_options,
    saved,
)
from workbench.errors import WorkbenchError
from workbench.terminal import say, say_json, shows_progress

if TYPE_CHECKING:
    from workbench.analysis.changes import Changes

__all__ = ["command"]

_TOKENS = 100  # of the largest divergence, in the JSON object


def _parts(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(part.strip() for part in value.split(","))


@click.command(name="changes")
@click.argument("models", nargs=-1, metavar="BEFORE AFTER...")
@click.option("--texts", type=PATH, help="A text a line, a table, a .conllu treebank, or hub:NAME.")
@click.option("--data", help="Instead: preferences by name or file; each prompt with its chosen reply.")
@click.option("--data-dir", type=PATH, help="Folder of --data's files.")
@click.option("--text-column", help="Of a table; default sentence or text.")
@click.option("--limit", type=COUNT, default=100, show_default=True, help="Only the first N texts.")
@click.option(
    "--over-steps",
    is_flag=True,
    help="Every kept checkpoint of one MODEL, a folder with step-N; the first is before.",
)
@click.option(
    "--parts", callback=_parts, help="Of kl, weights, cka, lens and heads, by commas.  [default: all]"
)
@click.option(
    "--probe-task", help="Also: accuracy of probes for this task, by layer; see workbench probe --list."
)
@click.option("--probe-data", default="builtin", show_default=True, help="builtin, or a file of the task.")
@click.option("--probe-limit", type=COUNT, default=300, show_default=True, help="Sentences that are probed.")
@click.option(
    "--direction",
    type=PATH,
    help="Also: the direction between two groups of texts, a table with text and label.",
)
@click.option("--reward", help="Also: which tokens a reward rests on: model:NAME or model:NAME#LABEL.")
@click.option("--places", type=COUNT, default=1000, show_default=True, help="Words that CKA compares.")
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Of resampling, splits and random pairs."
)
@click.option("--out", type=PATH, help="File: .html, .svg, .png, .pdf or .csv (all numbers).")
@prompt_options
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(models: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show what training changed inside a model: BEFORE and AFTER compared by layer, head and token over texts.

    KL(after || before) at each token, CKA of each layer, the distance of weights, the logit lens at the last token of
    each text, and each head's attention. FOLDER@step-8 is a checkpoint of a training run, FOLDER@step-* all of them:
    the first model is compared with each of the others. Models need one depth; what goes by token needs one tokenizer.

    \b
    workbench changes novels-decoder runs/tuned --texts texts.txt --out changes.html
    workbench changes runs/mine --over-steps --texts texts.txt
    workbench changes novels-decoder runs/tuned --texts texts.txt --probe-task pos --direction reviews.csv
    workbench changes base instruct aligned --data hh_rlhf --data-dir DIR --reward model:runs/reward
    """
    from probes.training_changes import ChangesSettings, changes, expanded

    check_figure(options["out"])
    named = list(models)
    if options["over_steps"]:
        if len(named) != 1:
            raise WorkbenchError(
                f"--over-steps takes one MODEL, got {len(named)}; name one, or FOLDER@step-N each"
            )
        named = [name if "@step-" in name else f"{name}@step-*" for name in named]
    every = expanded(named)  # wrong names and files are reported before a model is loaded
    texts = _texts(options)
    given = {
        name: options[name]
        for name in ("probe_task", "probe_data", "probe_limit", "reward", "places", "seed")
    }
    if options["parts"] is not None:
        given["parts"] = options["parts"]
    direction = None if options["direction"] is None else str(options["direction"])
    found = changes(
        every,
        texts,
        ChangesSettings(**given, direction=direction),
        open_model=lambda name: load_named(str(name), options),
        progress=shows_progress(),
    )
    _show(found, options["out"], as_json)


def _texts(options: dict[str, Any]) -> list[str]:
    from workbench.scoring.regions import read_sentences

    if (options["texts"] is None) == (options["data"] is None):
        raise WorkbenchError("give one of --texts FILE and --data NAME; see: workbench changes --help")
    if options["texts"] is None:
        return _preferences(options["data"], options["data_dir"], options["limit"])
    found = read_sentences(options["texts"], text=options["text_column"], limit=options["limit"])
    return [one.text for one in found]


def _preferences(name: str, folder: Path | None, limit: int) -> list[str]:
    from workbench.data.preferences import read_preferences

    return [pair.prompt + pair.chosen for pair in read_preferences(name, folder, limit=limit).pairs]


def _show(found: Changes, out: Path | None, as_json: bool) -> None:
    path = None if out is None else saved(found.figure(), out)
    if as_json:
        say_json(_record(found, path))
        return
    from workbench.cli._changes_text import changes_text

    say(changes_text(found))
    say(f"\n{path}" if path else "\ndraw it with --out changes.html")


def _record(found: Changes, path: Path | None) -> dict[str, Any]:
    tokens = found.tokens.head(_TOKENS)
    return {
        "file": None if path is None else str(path),
        "before": found.before,
        "after": list(found.after),
        "texts": found.texts,
        "summary": found.summary().to_dict("records"),
        "values": found.to_frame().astype(object).to_dict("records"),
        "tokens": tokens.to_dict("records"),
        "reward_words": found.reward_words().to_dict("records"),
        "notes": list(found.notes),
    }
