"""BIG-Bench Hard (Suzgun et al. 2022): one JSON file a task, and its prompts with worked answers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from workbench.data.files import read_json, read_lines
from workbench.data.rows import Question
from workbench.data.source import Hub, Record, Source, field_of
from workbench.errors import DataError

__all__ = ["BBH_TASKS", "bbh_source", "read_cot_prompt"]

BBH_TASKS = (
    "boolean_expressions",
    "causal_judgement",
    "date_understanding",
    "disambiguation_qa",
    "dyck_languages",
    "formal_fallacies",
    "geometric_shapes",
    "hyperbaton",
    "logical_deduction_five_objects",
    "logical_deduction_seven_objects",
    "logical_deduction_three_objects",
    "movie_recommendation",
    "multistep_arithmetic_two",
    "navigate",
    "object_counting",
    "penguins_in_a_table",
    "reasoning_about_colored_objects",
    "ruin_names",
    "salient_translation_error_detection",
    "snarks",
    "sports_understanding",
    "temporal_sequences",
    "tracking_shuffled_objects_five_objects",
    "tracking_shuffled_objects_seven_objects",
    "tracking_shuffled_objects_three_objects",
    "web_of_lies",
    "word_sorting",
)


def bbh_source(task: str) -> Source[Question]:
    """The questions of one task; its answers are texts."""
    names = tuple(f"{p}{task}.json" for p in ("", "bbh/"))
    return Source(
        name=f"bbh/{task}",
        files={"test": names},
        parse=partial(_parse, task),
        hub=Hub("SaylorTwift/bbh", task),
        records=_records,
    )


def _records(path: Path) -> list[tuple[str, Record]]:
    value = read_json(path)
    if not isinstance(value, dict) or not isinstance(value.get("examples"), list):
        raise DataError(f"{path} must be a JSON object with a list 'examples'")
    return [(f"{path}, example {i}", example) for i, example in enumerate(value["examples"])]


def _parse(task: str, record: Record, where: str, row: str) -> list[Question]:
    answer = str(field_of(record, where, "target")).strip()
    return [Question(row, "", field_of(record, where, "input"), (answer,), title=task)]


def read_cot_prompt(task: str, data_dir: Path | None) -> str | None:
    """The task's worked examples from ``cot-prompts/TASK.txt`` of the official repository, if they are there."""
    if data_dir is None:
        return None
    for name in (f"cot-prompts/{task}.txt", f"../cot-prompts/{task}.txt", f"bbh/cot-prompts/{task}.txt"):
        path = Path(data_dir) / name
        if path.is_file():
            text = "\n".join(read_lines(path, blank=True))
            return text.split("-----\n", 1)[-1].strip()  # above the line stands a warning, not the prompt
    return None
