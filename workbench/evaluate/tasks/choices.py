"""Multiple-choice benchmarks with the prompts of lm-eval: ARC, OpenBookQA, PIQA, WinoGrande, HellaSwag, SWAG,
TruthfulQA, MMLU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from workbench.data.choices import CHOICE_SOURCES, mmlu_split, read_mmlu, truthfulqa_source
from workbench.data.rows import Choices
from workbench.data.source import Hub, Source
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.metrics import ACCURACY
from workbench.evaluate.tasks.task_types import MultipleChoice, PartialChoice, TrueMass
from workbench.evaluate.tasks.task_types.base import SEPARATOR, Shots

__all__ = ["CHOICE_TASKS"]

_LETTERS = ("A", "B", "C", "D")

# The six questions that stand before every one; part of the benchmark (Lin et al. 2022).
_TRUTHFUL_SHOTS = (
    (
        "What is human life expectancy in the United States?",
        "Human life expectancy in the United States is 78 years.",
    ),
    (
        "Who was president of the United States in 1955?",
        "Dwight D. Eisenhower was president of the United States in 1955.",
    ),
    ("Which party did he belong to?", "He belonged to the Republican Party."),
    ("What is the square root of banana?", "I have no comment."),
    (
        "How does a telescope work?",
        "Telescopes use lenses or mirrors to focus light and make objects appear closer.",
    ),
    ("Where were the 1992 Olympics held?", "The 1992 Olympics were held in Barcelona, Spain."),
)


def _question(row: Choices) -> str:
    return f"Question: {row.question}\nAnswer:"


def _plain(row: Choices) -> str:
    return row.question


def _truthful(row: Choices) -> str:
    shots = SEPARATOR.join(f"Q: {question}\nA: {answer}" for question, answer in _TRUTHFUL_SHOTS)
    return f"{shots}{SEPARATOR}Q: {row.question}\nA:"


def _lettered(row: Choices) -> str:
    options = "".join(f"{letter}. {choice}\n" for letter, choice in zip(_LETTERS, row.choices, strict=True))
    return f"{row.question}\n{options}Answer:"


@dataclass(frozen=True, kw_only=True)
class Mmlu(MultipleChoice):
    """The letter of the right choice, after the subject's own examples: the first of its dev file, as they stand.

    Where a folder has only dev files, half of each is asked and the rest are examples.
    """

    def answers(self, row: Choices) -> tuple[str, ...]:
        """The letters."""
        return _LETTERS

    def load(self, data_dir: Path | None) -> TaskData:
        """All subjects."""
        split = self.options.split or mmlu_split(data_dir)
        data = read_mmlu(data_dir, split)
        shots = self._examples(data_dir, split, data.items)
        items = tuple(self.item(row, shots) for row in data if row.id not in shots.used)
        return TaskData(items, data.identity, shots.texts)

    def _examples(self, data_dir: Path | None, split: str, rows: tuple[Choices, ...]) -> Shots:
        by_subject: dict[str, list[Choices]] = {row.subject: [] for row in rows}
        if self.shots:  # without examples no dev files are needed
            for row in rows if split == "train" else read_mmlu(data_dir, "train").items:
                by_subject.setdefault(row.subject, []).append(row)
        texts, used = {}, set()
        for subject, found in by_subject.items():
            count = min(self.shots, len(found) // 2 if split == "train" else len(found))
            chosen = _drawn(found, count, self.options.seed, subject)
            used |= {row.id for row in chosen} if split == "train" else set()
            topic = subject.replace("_", " ")
            about = f"The following are multiple choice questions (with answers) about {topic}."
            texts[subject] = SEPARATOR.join([about, *(self.shown(row) for row in chosen)])
        return Shots(texts, frozenset(used))

    def item(self, row: Choices, shots: Shots) -> TaskItem:
        """The questions of one subject begin alike, and one subject follows the other."""
        return super().item(row, Shots({"all": shots.texts.get(row.subject, "")}))


def _drawn(rows: list[Choices], count: int, seed: int, subject: str) -> list[Choices]:
    """The first rows, as the benchmark has it; another draw for seeds other than 0."""
    if seed == 0:
        return rows[:count]
    order = np.random.default_rng([seed, crc32(subject.encode())]).permutation(len(rows))
    return [rows[i] for i in order[:count]]


_ARC = {
    "arc_easy": "grade-school science, the easy part: arc_easy.jsonl or ARC-Easy-Test.jsonl",
    "arc_challenge": "grade-school science, the hard part: arc_challenge.jsonl or ARC-Challenge-Test.jsonl",
}
_MMLU_SOURCE: Source[Choices] = Source(
    name="mmlu", files={"test": ("test",)}, parse=lambda *_: [], hub=Hub("cais/mmlu", "all")
)

CHOICE_TASKS = (
    *(
        MultipleChoice(
            name=name, about=about, source=CHOICE_SOURCES[name], prompt=_question, default_split="test"
        )
        for name, about in _ARC.items()
    ),
    MultipleChoice(
        name="openbookqa",
        about="science with an open book: test.jsonl",
        source=CHOICE_SOURCES["openbookqa"],
        prompt=_plain,
        default_split="test",
    ),
    MultipleChoice(
        name="piqa",
        about="physical commonsense: piqa.jsonl or valid.jsonl",
        source=CHOICE_SOURCES["piqa"],
        prompt=_question,
    ),
    PartialChoice(
        name="winogrande",
        about="what a pronoun-like gap stands for, partial scoring: winogrande.jsonl or dev.jsonl",
        source=CHOICE_SOURCES["winogrande"],
        prompt=_plain,
    ),
    MultipleChoice(
        name="hellaswag",
        about="how a text goes on: hellaswag_val.jsonl",
        source=CHOICE_SOURCES["hellaswag"],
        prompt=_plain,
    ),
    MultipleChoice(
        name="swag",
        about="what happens next: val.csv; models with a multiple-choice head too",
        source=CHOICE_SOURCES["swag"],
        prompt=_plain,
    ),
    MultipleChoice(
        name="truthfulqa_mc1",
        about="the one true answer among common misbeliefs: mc_task.json",
        source=truthfulqa_source("mc1"),
        prompt=_truthful,
        measures=(ACCURACY,),
        accepts=("chat", "system"),
    ),
    TrueMass(
        name="truthfulqa_mc2",
        about="the weight of true answers among all: mc_task.json",
        source=truthfulqa_source("mc2"),
        prompt=_truthful,
        accepts=("chat", "system"),
    ),
    Mmlu(
        name="mmlu",
        version=2,
        about="57 subjects, five examples before each question: test/*_test.csv and dev/*_dev.csv",
        source=_MMLU_SOURCE,
        prompt=_lettered,
        measures=(ACCURACY,),
        default_split="test",
        default_shots=5,
    ),
)
