"""The few forms that all tasks have; a task is a declaration of one of them."""

from __future__ import annotations

from workbench.evaluate.tasks.shapes.choice import MultipleChoice, PartialChoice, TrueMass
from workbench.evaluate.tasks.shapes.classification import TextClassification, TextScore
from workbench.evaluate.tasks.shapes.filling import Filling
from workbench.evaluate.tasks.shapes.passages import Perplexity
from workbench.evaluate.tasks.shapes.preference import Preferring
from workbench.evaluate.tasks.shapes.spans import SpanPairs
from workbench.evaluate.tasks.shapes.tagging import Tagging
from workbench.evaluate.tasks.shapes.toxicity import Toxicity
from workbench.evaluate.tasks.shapes.writing import Answering, Summarisation, Translation, Writing

__all__ = [
    "Answering",
    "Filling",
    "MultipleChoice",
    "PartialChoice",
    "Perplexity",
    "Preferring",
    "SpanPairs",
    "Summarisation",
    "Tagging",
    "TextClassification",
    "TextScore",
    "Toxicity",
    "Translation",
    "TrueMass",
    "Writing",
]
