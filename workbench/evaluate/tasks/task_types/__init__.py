"""The few forms that all tasks have; a task is a declaration of one of them."""

from __future__ import annotations

from workbench.evaluate.tasks.task_types.classification import TextClassification, TextScore
from workbench.evaluate.tasks.task_types.cloze import ClozeTask
from workbench.evaluate.tasks.task_types.generation import (
    AnsweringTask,
    GenerationTask,
    SummarisationTask,
    TranslationTask,
)
from workbench.evaluate.tasks.task_types.multiple_choice import MultipleChoice, PartialChoice, TrueMass
from workbench.evaluate.tasks.task_types.perplexity import Perplexity
from workbench.evaluate.tasks.task_types.preferences import PreferenceTask
from workbench.evaluate.tasks.task_types.span_pairs import SpanPairs
from workbench.evaluate.tasks.task_types.tagging import Tagging
from workbench.evaluate.tasks.task_types.toxicity import Toxicity
from workbench.evaluate.tasks.task_types.unanswerable import UnanswerableTask

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
    "UnanswerableTask",
]
