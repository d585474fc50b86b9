"""From a task's own reader to the rows that fine-tuning takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.data.rows import Choices, Question, TaggedWords, TextPair
from workbench.errors import TaskError
from workbench.evaluate.tasks.task_types import (
    AnsweringTask,
    MultipleChoice,
    Tagging,
    TextClassification,
    TextScore,
)
from workbench.training.finetuning import AnswerKind, FineTask, TaskRows

__all__ = ["fine_rows", "trained_as"]

# Sets without a train split of their own, and whose model answers them.
_TRAINED_AS = {
    "glue/mnli_mismatched": "glue/mnli",
    "glue/ax": "glue/mnli",
    "superglue/axb": "superglue/rte",
    "superglue/axg": "superglue/rte",
}


def trained_as(name: str) -> str:
    """The task that a model for ``name`` is trained on."""
    return _TRAINED_AS.get(name, name)


def fine_rows(task: Any, data_dir: Path | None, limit: int | None = None) -> TaskRows:
    """Train rows (the first ``limit``) and validation rows of ``task``.

    Raises :class:`~workbench.errors.TaskError` for tasks that no head learns, :class:`~workbench.errors.DataError` if
    the train file is missing.
    """
    if isinstance(task, TextClassification):
        return _classified(task, data_dir, limit)
    if isinstance(task, Tagging):
        return _tagged(task, data_dir, limit)
    if isinstance(task, AnsweringTask):
        return _answered(task, data_dir, limit)
    if type(task) is MultipleChoice:
        return _chosen(task, data_dir, limit)
    raise TaskError(f"task {task.name} cannot be learned by a head; leave out --finetune")


def _splits(task: Any, data_dir: Path | None, limit: int | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    train = task.source.read(data_dir, "train").items[:limit]
    held = task.source.read(data_dir, task.split).items
    return train, held


def _classified(task: TextClassification, data_dir: Path | None, limit: int | None) -> TaskRows:
    train, held = _splits(task, data_dir, limit)
    is_score = isinstance(task, TextScore)

    def row(pair: TextPair) -> dict[str, Any]:
        gold = pair.gold or 0
        label = f"{gold:g}" if is_score else task.labels[int(gold)]
        texts = {"text": pair.text} if pair.pair is None else {"text": pair.text, "pair": pair.pair}
        return {**texts, "label": label}

    has_pair = train[0].pair is not None
    fine = FineTask(
        task.name,
        AnswerKind.NUMBER if is_score else AnswerKind.CLASS,
        "text",
        "label",
        "pair" if has_pair else None,
        () if is_score else task.labels,
        metric="spearman" if is_score else "accuracy",
    )
    return TaskRows(
        fine, [row(r) for r in train if r.gold is not None], [row(r) for r in held if r.gold is not None]
    )


def _tagged(task: Tagging, data_dir: Path | None, limit: int | None) -> TaskRows:
    train, held = _splits(task, data_dir, limit)

    def row(words: TaggedWords) -> dict[str, Any]:
        return {"tokens": list(words.words), "labels": list(words.tags)}

    tags = tuple(sorted({tag for sentence in (*train, *held) for tag in sentence.tags}))
    fine = FineTask(task.name, AnswerKind.TOKENS, "tokens", "labels", labels=tags, metric="span_f1")
    return TaskRows(fine, [row(r) for r in train], [row(r) for r in held])


def _answered(task: AnsweringTask, data_dir: Path | None, limit: int | None) -> TaskRows:
    train, held = _splits(task, data_dir, limit)

    def row(question: Question) -> dict[str, Any]:
        return {"question": question.question, "context": question.context, "answer": question.answers[0]}

    fine = FineTask(task.name, AnswerKind.SPAN, "question", "answer", "context", metric="f1")
    return TaskRows(fine, [row(r) for r in train], [row(r) for r in held])


def _chosen(task: MultipleChoice, data_dir: Path | None, limit: int | None) -> TaskRows:
    train, held = _splits(task, data_dir, limit)

    def row(choices: Choices) -> dict[str, Any]:
        return {"query": task.prompt(choices), "choices": list(choices.choices), "gold": choices.gold[0]}

    fine = FineTask(task.name, AnswerKind.CHOICE, "query", "gold", "choices")
    return TaskRows(fine, [row(r) for r in train if r.gold], [row(r) for r in held if r.gold])
