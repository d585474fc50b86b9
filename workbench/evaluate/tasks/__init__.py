"""The tasks, by name, and the groups of them."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.evaluate._task import Task
from workbench.evaluate.tasks.choices import CHOICE_TASKS
from workbench.evaluate.tasks.generation import BBH, BBH_COT, GENERATION_TASKS
from workbench.evaluate.tasks.glue import GLUE_AVERAGE, GLUE_TASKS
from workbench.evaluate.tasks.lambada import Lambada
from workbench.evaluate.tasks.reading import READING_TASKS
from workbench.evaluate.tasks.superglue import SUPERGLUE_AVERAGE, SUPERGLUE_TASKS
from workbench.registry import Registry

__all__ = ["AVERAGES", "GROUPS", "TASKS"]

TASKS: Registry[Task] = Registry("task")

_LAMBADA = (
    Lambada("lambada_openai", "last word of a passage, OpenAI's cased text: lambada_test.jsonl"),
    Lambada(
        "lambada_standard", "last word of a passage, tokenised lower-case text: lambada_test_plain_text.txt"
    ),
    Lambada("lambada_sample", "last word of a passage, 60 short passages that come with the package"),
)
_DECLARED: tuple[Iterable[Task], ...] = (
    _LAMBADA,
    GLUE_TASKS,
    SUPERGLUE_TASKS,
    CHOICE_TASKS,
    READING_TASKS,
    GENERATION_TASKS,
    BBH,
    BBH_COT,
)
for _tasks in _DECLARED:
    for _task in _tasks:
        TASKS.register(_task.name, _task)


def _starting(prefix: str) -> tuple[str, ...]:
    return tuple(name for name in TASKS if name.startswith(prefix))


# group -> its tasks; members whose files are missing are left out of a run, and the run says so
GROUPS: dict[str, tuple[str, ...]] = {
    "glue": tuple(task.name for task in GLUE_TASKS),
    "superglue": tuple(task.name for task in SUPERGLUE_TASKS),
    "arc": ("arc_easy", "arc_challenge"),
    "truthfulqa": ("truthfulqa_mc1", "truthfulqa_mc2"),
    "cbt": ("cbt_cn", "cbt_ne"),
    "ner": _starting("ner/"),
    "multi30k": _starting("multi30k/"),
    "bbh": tuple(task.name for task in BBH),
    "bbh_cot": tuple(task.name for task in BBH_COT),
}
# group -> part of the average -> (task, metric) pairs that are averaged first
AVERAGES: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {
    "glue": GLUE_AVERAGE,
    "superglue": SUPERGLUE_AVERAGE,
    "bbh": {task.name: ((task.name, "exact_match"),) for task in BBH},
    "bbh_cot": {task.name: ((task.name, "exact_match"),) for task in BBH_COT},
}
