"""Evaluation: tasks, their metrics, the runner that stores what it measured, and the numeric self-check."""

from __future__ import annotations

from workbench.evaluate._names import expand, find_task, register_tasks
from workbench.evaluate._options import TaskOptions
from workbench.evaluate._runner import evaluate, read_data
from workbench.evaluate._settings import EvaluateSettings
from workbench.evaluate._task import Task, TaskData, TaskItem
from workbench.evaluate.tasks import AVERAGES, GROUPS, TASKS

__all__ = [
    "AVERAGES",
    "GROUPS",
    "TASKS",
    "EvaluateSettings",
    "Task",
    "TaskData",
    "TaskItem",
    "TaskOptions",
    "evaluate",
    "expand",
    "find_task",
    "read_data",
    "register_tasks",
]
