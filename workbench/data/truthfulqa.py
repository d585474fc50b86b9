"""TruthfulQA (Lin et al. 2022), multiple choice: mc_task.json."""

from __future__ import annotations

from typing import Any

from workbench.data.rows import Choices
from workbench.data.source import Hub, Record, Source, field_of
from workbench.errors import DataError

__all__ = ["truthfulqa_source"]


def truthfulqa_source(variant: str) -> Source[Choices]:
    """``mc1`` has one true answer, ``mc2`` any number of them."""

    def parse(record: Record, where: str, row: str) -> list[Choices]:
        question = field_of(record, where, "question")
        choices, labels = _targets(field_of(record, where, f"{variant}_targets"))
        gold = tuple(i for i, label in enumerate(labels) if label)
        if not gold or (variant == "mc1" and len(gold) != 1):
            raise DataError(f"{where}: {len(gold)} true answers in {variant}_targets")
        return [Choices(row, question, choices, gold)]

    files = {"validation": ("mc_task.json", "truthfulqa/mc_task.json", "data/mc_task.json")}
    return Source(
        name=f"truthfulqa_{variant}",
        files=files,
        parse=parse,
        hub=Hub("truthfulqa/truthful_qa", "multiple_choice"),
    )


def _targets(value: dict[str, Any]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if "choices" in value and isinstance(value["choices"], list):  # the hub's form
        return tuple(value["choices"]), tuple(map(int, value["labels"]))
    return tuple(value), tuple(map(int, value.values()))
