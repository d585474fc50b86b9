"""Tasks that a model answers by writing: answers, translations, summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import pandas as pd

from workbench.data.rows import Question, Transfer
from workbench.data.source import Source
from workbench.estimate import Estimate
from workbench.evaluate._requests import AnyRequest, GenerationRequest, Span, SpanRequest
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.metrics import (
    EXACT_MATCH,
    WORD_F1,
    Metric,
    estimate_all,
    rouge,
)
from workbench.evaluate.tasks.task_types.base import DeclaredTask, Row, Shots, draw_shots
from workbench.models import Kind
from workbench.statistics import best_exact, best_f1

__all__ = ["AnsweringTask", "GenerationTask", "SummarisationTask", "TranslationTask"]

_WRITERS = (Kind.CAUSAL, Kind.SEQ2SEQ)


@dataclass(frozen=True, kw_only=True)
class GenerationTask(DeclaredTask, Generic[Row]):
    """Greedy decoding up to a stop string or ``max_tokens``, after which a text counts as unfinished."""

    source: Source[Row]
    prompt: Callable[[Row], str]
    stop: tuple[str, ...] = ("\n",)
    max_tokens: int = 64
    measures: tuple[Metric, ...]
    kinds: tuple[Kind, ...] = _WRITERS
    accepts: tuple[str, ...] = ("shots", "chat", "system", "split")

    def load(self, data_dir: Path | None) -> TaskData:
        """All rows."""
        data = self.source.read(data_dir, self.split)
        shots = self.examples_before(data_dir, data.items)
        items = tuple(self.item(row, shots) for row in data if row.id not in shots.used)
        return TaskData(items, data.identity, shots.texts)

    def examples_before(self, data_dir: Path | None, rows: Sequence[Row]) -> Shots:
        """The examples that stand before each question."""
        return draw_shots(self.source, data_dir, self.split, rows, self.shots, self.options.seed, self.shown)

    def shown(self, row: Row) -> str:
        """A row as an example."""
        return f"{self.prompt(row)} {self.gold(row)[0]}"

    def gold(self, row: Row) -> tuple[str, ...]:
        """The right answers."""
        raise NotImplementedError

    def item(self, row: Row, shots: Shots) -> TaskItem:
        """One prompt."""
        prompt = self.prompt(row)
        request = GenerationRequest(shots.before("all") + prompt, self.stop, self.max_tokens)
        fields = {"text": prompt, "target": self.gold(row)[0], "references": list(self.gold(row))}
        return TaskItem(
            row.id, (request,), fields, getattr(row, "cluster", None), self.head(row), self.bare(row)
        )

    def head(self, row: Row) -> tuple[AnyRequest, ...]:
        """What a model with a head is asked, if one can do the task."""
        return ()

    def bare(self, row: Row) -> tuple[AnyRequest, ...]:
        """What an encoder-decoder is asked, if it is not the prompt."""
        return ()

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """What was written, and how good it is."""
        (answer,) = answers
        text = self.read(answer.text)
        row = {**item.fields, "predicted": text, "written": answer.text}
        if not isinstance(answer, Span):
            row |= {"tokens": answer.tokens, "finished": answer.finished, "limit": self.max_tokens}
        return {**row, **self.judge(text, item.fields["references"])}

    def read(self, text: str) -> str:
        """The answer in what was written."""
        return text.strip()

    def judge(self, text: str, gold: Sequence[str]) -> dict[str, Any]:
        """Columns that the metrics read."""
        return {}

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """The declared metrics."""
        return estimate_all(self.measures, examples, seed)


@dataclass(frozen=True, kw_only=True)
class AnsweringTask(GenerationTask[Question]):
    """Questions about a context: SQuAD's exact match and F1. Models with a span head point at the answer."""

    measures: tuple[Metric, ...] = (EXACT_MATCH, WORD_F1)
    kinds: tuple[Kind, ...] = (*_WRITERS, Kind.CLASSIFIER)

    def gold(self, row: Question) -> tuple[str, ...]:
        """All gold answers."""
        return row.answers

    def head(self, row: Question) -> tuple[AnyRequest, ...]:
        """Question and context apart."""
        return (SpanRequest(row.question, row.context),) if row.context else ()

    def judge(self, text: str, gold: Sequence[str]) -> dict[str, Any]:
        """Exact match and F1, each the best over the gold answers."""
        exact = best_exact(text, gold)
        return {"exact": exact, "f1": best_f1(text, gold), "correct": bool(exact)}


@dataclass(frozen=True, kw_only=True)
class TranslationTask(GenerationTask[Transfer]):
    """A sentence in another language."""

    def gold(self, row: Transfer) -> tuple[str, ...]:
        """The reference translations."""
        return row.references

    def bare(self, row: Transfer) -> tuple[AnyRequest, ...]:
        """The sentence as it is: encoder-decoders are trained on that."""
        return (GenerationRequest(row.source, (), self.max_tokens),)


@dataclass(frozen=True, kw_only=True)
class SummarisationTask(TranslationTask):
    """A summary, judged by ROUGE."""

    def judge(self, text: str, gold: Sequence[str]) -> dict[str, Any]:
        """F-measures against the first reference."""
        return dict(rouge(text, gold[0]))
