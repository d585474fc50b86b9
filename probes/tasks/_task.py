"""What a probing task is, and finding one by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from probes._data import ProbeData, Unit
from probes.tasks._sources import BUILTIN, Treebank, read_treebank
from workbench.choices import as_members
from workbench.errors import DataError, TaskError
from workbench.registry import Registry

__all__ = ["TASKS", "ProbeTask", "load_task", "register"]


@dataclass(frozen=True)
class ProbeTask:
    """A task by name. ``build`` reads trees, or ``read`` a file of another format that ``formats`` names."""

    name: str
    unit: Unit
    about: str
    build: Callable[[Treebank, int], ProbeData] | None = None  # trees and a seed
    read: Callable[[Path, int | None], ProbeData] | None = None  # a file and a limit
    formats: str = "CoNLL-U, or builtin"

    def __post_init__(self) -> None:
        as_members(self)


TASKS: Registry[ProbeTask] = Registry("probing task")


def register(task: ProbeTask) -> ProbeTask:
    """Make a task known by its name."""
    return TASKS.register(task.name, task)


def load_task(name: str, data: str | Path = BUILTIN, limit: int | None = None, seed: int = 0) -> ProbeData:
    """The items of a task in ``data``, a file in the task's format or ``builtin``.

    Raises :class:`~workbench.errors.TaskError` for an unknown name or ``builtin`` where the task has no
    trees, :class:`~workbench.errors.DataError` with file and line for what cannot be read.
    """
    task = TASKS.get(name)
    if task.build is not None:
        return task.build(read_treebank(data, limit, seed), seed)
    assert task.read is not None
    if str(data) == BUILTIN:
        raise TaskError(f"task {name} is not made from trees; give --data FILE: {task.formats}")
    path = Path(data)
    if not path.is_file():
        raise DataError(f"no file {path}; task {name} reads {task.formats}")
    return task.read(path, limit)
