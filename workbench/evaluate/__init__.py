"""Evaluation: tasks, their metrics, the runner that stores what it measured, and the numeric self-check."""

from __future__ import annotations

from workbench.evaluate._names import expand, find_task
from workbench.evaluate._options import Options
from workbench.evaluate._runner import evaluate, read_data
from workbench.evaluate._settings import Settings
from workbench.evaluate._task import Item, Task, TaskData
from workbench.evaluate.tasks import AVERAGES, GROUPS, TASKS

__all__ = [
    "AVERAGES",
    "GROUPS",
    "TASKS",
    "Item",
    "Options",
    "Settings",
    "Task",
    "TaskData",
    "evaluate",
    "expand",
    "find_task",
    "read_data",
]
