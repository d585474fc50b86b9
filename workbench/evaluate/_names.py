"""From what the user names to tasks: single ones, groups, and what the options make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar, cast

from workbench.errors import TaskError, UnknownName
from workbench.evaluate._options import TaskOptions
from workbench.evaluate._task import Task
from workbench.evaluate.tasks import GROUPS, TASKS
from workbench.evaluate.tasks.task_file import is_task_file, read_task

__all__ = ["expand", "find_task", "register_tasks", "with_options"]

AnyTask = TypeVar("AnyTask", bound=Task)

_ENTRY_POINTS = "workbench.tasks"
_FROM_FILES: dict[str, Task] = {}  # tasks that files declare, by name


@cache
def register_tasks() -> None:
    """Add the tasks of installed packages to :data:`TASKS`, once; names that are taken stay as they are.

    A package names an iterable of tasks as an entry point of the group ``workbench.tasks``; the challenge sets come
    this way.
    """
    for point in entry_points(group=_ENTRY_POINTS):
        for task in point.load():
            if task.name not in TASKS:
                TASKS.register(task.name, task)


def expand(names: Sequence[str]) -> tuple[str, ...]:
    """Names of single tasks, each once: a group becomes its members, a YAML file the task that it declares.

    Raises :class:`~workbench.errors.UnknownName` for a name that is neither, with the nearest known ones, and
    :class:`~workbench.errors.TaskError` where two files, or two data sets on the hub, give tasks of one name.
    """
    found: dict[str, None] = {}
    own: dict[str, str] = {}
    names = [_from_file(name, own) if is_task_file(name) else name for name in names]
    if not all(name in TASKS or name in GROUPS or name in _FROM_FILES or ":" in name for name in names):
        register_tasks()
    for name in names:
        if name not in {*TASKS, *GROUPS, *_FROM_FILES} and ":" not in name:
            raise UnknownName("task", name, [*TASKS, *GROUPS], "list them with: workbench tasks")
        found.update(dict.fromkeys(GROUPS.get(name, (name,))))
    return tuple(found)


def find_task(name: str, options: TaskOptions | None = None) -> Task:
    """The task called ``name`` with ``options``; raises :class:`~workbench.errors.TaskError` for those it lacks."""
    if is_task_file(name):
        name = _from_file(name)
    if name not in TASKS and name not in _FROM_FILES:
        register_tasks()
    known: Any = _FROM_FILES.get(name)
    task: Any = known or (_bridged(name) if name.startswith("harness:") else TASKS.get(name))
    return with_options(task, options or TaskOptions())


def with_options(task: AnyTask, options: TaskOptions) -> AnyTask:
    """``task`` with ``options``; raises :class:`~workbench.errors.TaskError` for those it lacks."""
    flags = {name: f"--{name.replace('_', '-')}" for name in TaskOptions.names()}
    accepts = getattr(task, "accepts", ())
    for option in options.given():
        if option not in accepts:
            its = ", ".join(flags[name] for name in accepts) or "none"
            raise TaskError(f"task {task.name} takes no {flags[option]}; its options: {its}")
    return replace(cast(Any, task), options=options) if hasattr(task, "options") else task


def _from_file(path: str, others: dict[str, str] | None = None) -> str:
    """The name of the task that the file at ``path`` declares, which is known by it from then on.

    ``others`` holds the files of the same command by their tasks' names; it is added to.
    """
    task = read_task(path)
    before = path if others is None else others.setdefault(task.name, path)
    if before != path:
        raise TaskError(
            f"{before} and {path} are both called {task.name!r}; evaluate them one at a time, or name one by a YAML "
            "file with name, type and data"
        )
    if task.name in TASKS or task.name in GROUPS:
        raise TaskError(f"{path}: the name {task.name!r} is taken by another task; choose another")
    _FROM_FILES[task.name] = task
    return task.name


def _bridged(name: str) -> Task:
    """A task of lm-eval, which is imported only here."""
    from workbench.evaluate.harness import harness_task

    return harness_task(name)
