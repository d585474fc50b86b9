"""The few forms that all tasks have; a task is a declaration of one of them."""

from __future__ import annotations

from workbench.evaluate.tasks.task_types.choice import MultipleChoice, PartialChoice, TrueMass
from workbench.evaluate.tasks.task_types.classification import TextClassification, TextScore
from workbench.evaluate.tasks.task_types.filling import ClozeTask
from workbench.evaluate.tasks.task_types.passages import Perplexity
from workbench.evaluate.tasks.task_types.preference import PreferenceTask
from workbench.evaluate.tasks.task_types.spans import SpanPairs
from workbench.evaluate.tasks.task_types.tagging import Tagging
from workbench.evaluate.tasks.task_types.toxicity import Toxicity
from workbench.evaluate.tasks.task_types.writing import (
    AnsweringTask,
    GenerationTask,
    SummarisationTask,
    TranslationTask,
)

__all__ = [
    "AnsweringTask",
    "ClozeTask",
    "GenerationTask",
    "MultipleChoice",
    "PartialChoice",
    "Perplexity",
    "PreferenceTask",
    "SpanPairs",
    "SummarisationTask",
    "Tagging",
    "TextClassification",
    "TextScore",
    "Toxicity",
    "TranslationTask",
    "TrueMass",
]
