"""``workbench tasks``: what a model can be evaluated on."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command(name="tasks")
def command() -> None:
    """List the tasks: name, version, kinds of model, what is measured."""
    from workbench.cli._tables import table
    from workbench.evaluate import TASKS

    rows = [(t.name, f"{t.version}", ", ".join(t.kinds), t.about) for t in map(TASKS.get, TASKS)]
    click.echo(table(("task", "version", "kinds", "about"), rows))
