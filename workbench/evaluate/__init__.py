"""Evaluation: tasks, their metrics, the runner that stores what it measured, and the numeric self-check.

The module can itself be called: ``workbench.evaluate(model, settings)`` is :func:`evaluate`.
"""

from __future__ import annotations

from workbench.evaluate._evaluate import evaluate, read_data
from workbench.evaluate._names import expand, find_task, register_tasks, with_options
from workbench.evaluate._options import TaskOptions
from workbench.evaluate._runner import Outcome, run_tasks
from workbench.evaluate._settings import EvaluateSettings
from workbench.evaluate._task import RowTask, Task, TaskData, TaskItem, Work
from workbench.evaluate.slices import worst_slices
from workbench.evaluate.tasks import AVERAGES, GROUPS, TASKS
from workbench.evaluate.tasks.task_file import own_task
from workbench.rooms import callable_room

__all__ = [
    "AVERAGES",
    "GROUPS",
    "TASKS",
    "EvaluateSettings",
    "Outcome",
    "RowTask",
    "Task",
    "TaskData",
    "TaskItem",
    "TaskOptions",
    "Work",
    "evaluate",
    "expand",
    "find_task",
    "own_task",
    "read_data",
    "register_tasks",
    "run_tasks",
    "with_options",
    "worst_slices",
]

callable_room(__name__, evaluate)
