"""``workbench tasks``: what a model can be evaluated on."""

from __future__ import annotations

from typing import Any

import click

from workbench.terminal import say

__all__ = ["command"]


@click.command(name="tasks")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the tasks: name, version, kinds of model, what is measured; or show one task or group.

    \b
    workbench tasks
    workbench tasks glue/rte
    workbench tasks superglue
    """
    from workbench.cli._tables import table
    from workbench.evaluate import GROUPS, TASKS, expand, register_tasks

    register_tasks()
    if name is None:
        header = ("task", "version", "kinds", "about")
        say(table(header, [_row(task) for task in TASKS if not _is_listed_as_group(task)]))
        groups = [
            (group, f"{len(members)}", ", ".join(members[:3]) + ", …") for group, members in GROUPS.items()
        ]
        say("\n" + table(("group", "tasks", "members"), groups))
        say("\nnext: workbench tasks NAME shows one, workbench evaluate MODEL --task NAME runs it")
    elif name in GROUPS:
        say(table(("task", "version", "kinds", "about"), [_row(task) for task in expand([name])]))
    else:
        _show(TASKS.get(name))


def _is_listed_as_group(name: str) -> bool:
    """BIG-Bench Hard has 27 tasks in two forms."""
    return name.startswith(("bbh/", "bbh_cot/"))


def _row(name: str) -> tuple[str, str, str, str]:
    from workbench.evaluate import TASKS

    task = TASKS.get(name)
    return task.name, f"{task.version}", ", ".join(task.kinds), task.about


def _show(task: Any) -> None:
    say(f"{task.name}, version {task.version}: {task.about}")
    say(f"kinds of model: {', '.join(task.kinds)}")
    for metric in getattr(task, "measures", ()):
        better = {True: " (higher is better)", False: " (lower is better)", None: ""}[metric.higher_is_better]
        say(f"metric {metric.name}{better}: {metric.about}")
    accepts = [option.replace("_", "-") for option in getattr(task, "accepts", ())]
    say(f"options: {', '.join(f'--{option}' for option in accepts) or 'none'}")
    source = getattr(task, "source", None)
    for split, names in getattr(source, "files", {}).items():
        say(f"{split} files: {' or '.join(names)}")
    hub = getattr(source, "hub", None)
    if hub is not None:
        say(f"on the hub: {hub.path}")
