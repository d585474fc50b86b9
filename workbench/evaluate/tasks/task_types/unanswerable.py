"""Questions about a context that may not answer them: SQuAD v2 (Rajpurkar et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.data.rows import Question
from workbench.evaluate._requests import AnyRequest, Request, Span, SpanRequest
from workbench.evaluate._task import TaskItem
from workbench.evaluate.metrics import EXACT_MATCH, UNANSWERABLE_METRICS, WORD_F1, Metric
from workbench.evaluate.tasks.task_types.base import Shots
from workbench.evaluate.tasks.task_types.generation import AnsweringTask
from workbench.statistics import best_exact, best_f1, normalized

__all__ = ["UNANSWERABLE", "UnanswerableTask"]

UNANSWERABLE = "unanswerable"  # what a model writes where there is no answer, as in lm-eval


@dataclass(frozen=True, kw_only=True)
class UnanswerableTask(AnsweringTask):
    """SQuAD v2's exact match and F1, of questions with and without an answer, and at the best threshold.

    A model that writes gives no answer by nothing or by "unanswerable"; its probability of having none is that of
    " unanswerable" behind the prompt. A span head's is that of its first token against the best span, which is
    withdrawn above a half; the sweep of thresholds is over the spans themselves.
    """

    measures: tuple[Metric, ...] = (EXACT_MATCH, WORD_F1, *UNANSWERABLE_METRICS)

    def gold(self, row: Question) -> tuple[str, ...]:
        """The gold answers, or the word that stands for none."""
        return row.answers or (UNANSWERABLE,)

    def head(self, row: Question) -> tuple[AnyRequest, ...]:
        """Question and context apart; there may be no answer."""
        return (SpanRequest(row.question, row.context, may_be_absent=True),)

    def item(self, row: Question, shots: Shots) -> TaskItem:
        """One prompt, and how likely it is that nothing answers it."""
        item = super().item(row, shots)
        absent = Request(shots.before("all") + self.prompt(row), f" {UNANSWERABLE}")
        references = [answer for answer in row.answers if normalized(answer)] or [""]
        fields = {**item.fields, "references": references, "has_answer": bool(row.answers)}
        return replace(item, requests=(*item.requests, absent), fields=fields)

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """What was answered, whether that stands, and the columns of the sweep."""
        first, *rest = answers
        raw = self.read(first.text)
        none = first.no_answer_probability if isinstance(first, Span) else math.exp(rest[0].log_probability)
        own = "" if isinstance(first, Span) and none > 0.5 else raw
        gold = item.fields["references"]
        return {
            **super().example(item, answers[:1], tokenizer),
            "predicted": own,
            "no_answer_probability": none,
            "answered": bool(raw),
            "raw_exact": best_exact(raw, gold),
            "raw_f1": best_f1(raw, gold, empty_matches=True),
            **self.judge(own, gold),
        }

    def read(self, text: str) -> str:
        """The answer in what was written; empty where it says that there is none."""
        found = super().read(text)
        return "" if normalized(found) == UNANSWERABLE else found

    def judge(self, text: str, gold: Sequence[str]) -> dict[str, Any]:
        """Exact match and F1 by v2's rule, each the best over the gold answers."""
        exact = best_exact(text, gold)
        return {"exact": exact, "f1": best_f1(text, gold, empty_matches=True), "correct": bool(exact)}
