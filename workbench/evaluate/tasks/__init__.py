"""The tasks, by name."""

from __future__ import annotations

from workbench.evaluate._task import Task
from workbench.evaluate.tasks.lambada import Lambada
from workbench.registry import Registry

__all__ = ["TASKS"]

TASKS: Registry[Task] = Registry("task")

for _task in (
    Lambada("lambada_openai", "last word of a passage, OpenAI's cased text: lambada_test.jsonl"),
    Lambada(
        "lambada_standard", "last word of a passage, tokenised lower-case text: lambada_test_plain_text.txt"
    ),
    Lambada("lambada_sample", "last word of a passage, 60 short passages that come with the package"),
):
    TASKS.register(_task.name, _task)
