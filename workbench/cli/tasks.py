"""``workbench tasks``: what a model can be evaluated on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from workbench.citations import papers
from workbench.cli._shared import PATH
from workbench.errors import WorkbenchError
from workbench.terminal import say

__all__ = ["command", "show"]


@click.command(name="tasks")
@click.argument("name", required=False)
@click.option("--data-dir", type=PATH, help="Of hh_rlhf and preferences: folder of the files to report on.")
def command(name: str | None, data_dir: Path | None) -> None:
    """List the tasks: name, version, kinds of model, what is measured; or show one task, group or file of your own.

    \b
    workbench tasks
    workbench tasks glue/rte
    workbench tasks superglue
    workbench tasks questions.jsonl
    workbench tasks pairs.jsonl
    workbench tasks hh_rlhf --data-dir DIR

    Of preferences it also reports what they are like: lengths of chosen and rejected replies, how often the longer one
    is chosen, rows that are duplicated, contradicted, equal or empty.
    """
    from workbench.cli._tables import table
    from workbench.evaluate import GROUPS, TASKS, expand, register_tasks
    from workbench.evaluate.tasks.task_file import is_task_file
    from workbench.evaluate.tasks.task_types import PreferenceTask

    register_tasks()
    if name is None:
        header = ("task", "version", "kinds", "about")
        say(table(header, [_row(task) for task in TASKS if not _is_listed_as_group(task)]))
        groups = [
            (group, f"{len(members)}", ", ".join(members[:3]) + ", …") for group, members in GROUPS.items()
        ]
        say("\n" + table(("group", "tasks", "members"), groups))
        say("\nnext: workbench tasks NAME shows one, workbench evaluate MODEL --task NAME runs it")
    elif is_task_file(name) or (name not in {*TASKS, *GROUPS} and Path(name).is_dir()):
        _show_file(name)
    elif name in GROUPS:
        say(table(("task", "version", "kinds", "about"), [_row(task) for task in expand([name])]))
    else:
        task = TASKS.get(name)
        if data_dir is not None and not isinstance(task, PreferenceTask):
            raise WorkbenchError(f"--data-dir is of preferences, {name} is none; leave it out")
        show(task)
        if data_dir is not None and isinstance(task, PreferenceTask):
            _report(name, data_dir, task.default_split)


def _report(name: str, data_dir: Path | None = None, split: str | None = None) -> None:
    """What preferences are like."""
    from workbench.cli._tables import table
    from workbench.data.preference_report import preference_report
    from workbench.data.preferences import read_preferences

    frame = preference_report(read_preferences(name, data_dir, split=split)).to_frame()
    say("\n" + table(("preferences", ""), [tuple(row) for row in frame.itertuples(index=False)]))


def _is_listed_as_group(name: str) -> bool:
    """BIG-Bench Hard has 27 tasks in two forms."""
    return name.startswith(("bbh/", "bbh_cot/"))


def _row(name: str) -> tuple[str, str, str, str]:
    from workbench.evaluate import TASKS

    task = TASKS.get(name)
    return task.name, f"{task.version}", ", ".join(task.kinds), task.about


def _show_file(name: str) -> None:
    """What a file of the user's would be read as: its columns, the kind of task, the first item, how many."""
    from challenge_sets.sets.own import is_own_set, own_set
    from workbench.data.tables import is_table, read_table
    from workbench.evaluate.tasks.task_file import read_task
    from workbench.evaluate.tasks.task_types import PreferenceTask

    if is_table(name):
        _, first = next(read_table(Path(name)), ("", {}))
        say(f"columns: {', '.join(first)}")
    own = is_own_set(name) or Path(name).is_dir()
    task: Any = own_set(name) if own else read_task(name)
    items = task.load(None).items
    show(task)
    say(f"items: {len(items)}")
    if isinstance(task, PreferenceTask) and is_table(name):
        _report(name)
    command = f"check MODEL --set {name}" if own else f"evaluate MODEL --task {name}"
    say(f"next: workbench {command}")


def show(task: Any) -> None:
    """Print a task's kinds of model, metrics, options and files."""
    say(f"{task.name}, version {task.version}: {task.about}")
    say(f"kinds of model: {', '.join(task.kinds)}")
    for metric in getattr(task, "measures", ()):
        better = {True: " (higher is better)", False: " (lower is better)", None: ""}[metric.higher_is_better]
        say(f"metric {metric.name}{better}: {metric.about}")
    kind = "challenge set" if hasattr(task, "file") else "task"
    cited = papers(kind, task.name) + papers("metric", *(m.name for m in getattr(task, "measures", ())))
    for paper in dict.fromkeys(cited):
        say(f"cite: {paper}  {paper.url}".rstrip())
    accepts = [option.replace("_", "-") for option in getattr(task, "accepts", ())]
    say(f"options: {', '.join(f'--{option}' for option in accepts) or 'none'}")
    if getattr(task, "files", ""):
        say(f"files: {task.files}; give their folder with --data-dir")
    if getattr(task, "hub", None):
        say(f"on the hub: {task.hub.removeprefix('hub:')}, fetched where no folder is given")
    source = getattr(task, "source", None)
    for split, names in getattr(source, "files", {}).items():
        if names:
            say(f"{split} files: {' or '.join(names)}")
    hub = getattr(source, "hub", None)
    if hub is not None:
        say(f"on the hub: {hub.path}")
