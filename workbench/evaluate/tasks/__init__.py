"""The tasks, by name, and the groups of them."""

from __future__ import annotations

from workbench.evaluate._task import Task
from workbench.evaluate.tasks.lambada import Lambada
from workbench.registry import Registry

__all__ = ["AVERAGES", "GROUPS", "TASKS"]

TASKS: Registry[Task] = Registry("task")
# group -> its tasks
GROUPS: dict[str, tuple[str, ...]] = {}
# group -> part of the average -> (task, metric) pairs that are averaged first
AVERAGES: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {}

for _task in (
    Lambada("lambada_openai", "last word of a passage, OpenAI's cased text: lambada_test.jsonl"),
    Lambada(
        "lambada_standard", "last word of a passage, tokenised lower-case text: lambada_test_plain_text.txt"
    ),
    Lambada("lambada_sample", "last word of a passage, 60 short passages that come with the package"),
):
    TASKS.register(_task.name, _task)
