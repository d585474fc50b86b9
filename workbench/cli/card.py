"""``workbench card``: a model card in the hub's format, from the stored runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from workbench.cli._shared import PATH
from workbench.paths import check_output
from workbench.terminal import say

__all__ = ["command"]


@click.command("card")
@click.argument("model")
@click.option("--out", type=PATH, help="Markdown file to write (default: to the screen).")
@click.option("--root", type=PATH, help="Where runs lie (default: runs/ or WORKBENCH_RUNS).")
def command(model: str, out: Path | None, root: Path | None) -> None:
    """Write a card of MODEL, a name as the runs have it: metadata, results with intervals, how they were made.

    \b
    workbench card smollm2-135m --out README.md
    """
    from workbench.report import model_card, runs_of
    from workbench.runs import write_atomically

    if out is not None:
        check_output(out)
    text = model_card(model, runs_of(model, root), about=_about(model))
    if out is None:
        say(text, end="")
        return
    write_atomically(out, text.encode("utf-8", "backslashreplace"))
    say(out)


def _about(model: str) -> dict[str, Any]:
    """How a bundled model was made; nothing for others."""
    import workbench.models

    path = Path(str(workbench.models.__file__)).parent / "bundled" / Path(model).name / "card.json"
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content
