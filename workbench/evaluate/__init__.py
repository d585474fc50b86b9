"""Evaluation: tasks, their metrics, the runner that stores what it measured, and the numeric self-check."""

from __future__ import annotations

from workbench.evaluate._runner import evaluate, read_data
from workbench.evaluate._settings import Settings
from workbench.evaluate._task import Item, Task, TaskData
from workbench.evaluate.tasks import TASKS

__all__ = ["TASKS", "Item", "Settings", "Task", "TaskData", "evaluate", "read_data"]
