"""The types of task that a file can declare, each made from its keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.data.preferences import parse_preference
from workbench.data.rows import Blanked, Choices, Document, Preference, Question, TextPair
from workbench.data.source import Record, field_of, label_of
from workbench.errors import ConfigError, DataError, did_you_mean
from workbench.evaluate._task import Task
from workbench.evaluate.metrics import BLEU, CHRF, EXACT_MATCH, ROUGE_METRICS, WORD_F1, Metric, rouge
from workbench.evaluate.tasks.declared import Declared, listed, texts_key
from workbench.evaluate.tasks.task_types import (
    AnsweringTask,
    ClozeTask,
    MultipleChoice,
    PartialChoice,
    Perplexity,
    PreferenceTask,
    TextClassification,
)

__all__ = ["TYPES", "OwnAnswers"]

_GAP = "___"


def _multiple_choice(declared: Declared, shared: dict[str, Any]) -> Task:
    prompt, choices = declared.text("prompt"), declared.values.get("choices")
    answer = declared.values.get("answer", 0)

    def parse(record: Record, where: str, name: str) -> list[Choices]:
        if isinstance(choices, str):
            found = tuple(map(str, listed(field_of(record, where, choices))))
        else:
            templates = texts_key(choices, "choices", declared.file)
            found = tuple(declared.filled(template, record, where) for template in templates)
        gold = answer if isinstance(answer, int) else field_of(record, where, str(answer))
        question = declared.filled(prompt, record, where)
        return [Choices(name, question, found, (_place(gold, found, where),))]

    return MultipleChoice(source=declared.source(parse), prompt=lambda row: row.question, **shared)


def _partial_choice(declared: Declared, shared: dict[str, Any]) -> Task:
    choices, column = declared.text("choices"), declared.text("continuation", "continuation")
    answer = declared.values.get("answer", 0)

    def parse(record: Record, where: str, name: str) -> list[Choices]:
        contexts = tuple(map(str, listed(field_of(record, where, choices))))
        gold = answer if isinstance(answer, int) else field_of(record, where, str(answer))
        end = str(field_of(record, where, column))
        return [Choices(name, end, contexts, (_place(gold, contexts, where),), contexts)]

    return PartialChoice(source=declared.source(parse), prompt=lambda row: row.question, **shared)


def _cloze(declared: Declared, shared: dict[str, Any]) -> Task:
    text, choices = declared.text("text", "text"), declared.text("choices", "candidates")
    column = declared.text("answer", "answer")

    def parse(record: Record, where: str, name: str) -> list[Blanked]:
        before, gap, after = str(field_of(record, where, text)).partition(_GAP)
        candidates = tuple(map(str, listed(field_of(record, where, choices))))
        answers = tuple(map(str, listed(field_of(record, where, column))))
        if not gap or not set(answers) <= set(candidates):
            raise DataError(
                f"{where}: the text needs a gap {_GAP!r}, and answers among its candidates {', '.join(candidates)}"
            )
        return [Blanked(name, "", before, after, candidates, answers)]

    return ClozeTask(source=declared.source(parse), passage=lambda row: row.passage, **shared)


def _place(gold: Any, choices: tuple[str, ...], where: str) -> int:
    """The number of the right choice: a number from 0, as text too, a letter from A, or the choice itself."""
    if len(choices) < 2:
        raise DataError(
            f"{where}: choices must be a list of two or more, are {', '.join(map(repr, choices))}"
        )
    text, stripped = str(gold).strip(), [choice.strip() for choice in choices]
    if isinstance(gold, str) and stripped.count(text) == 1:
        return stripped.index(text)
    if text not in choices and len(text) == 1 and text.isalpha():
        gold = ord(text.upper()) - ord("A")
    elif text not in choices and text.isdigit():
        gold = int(text)
    return label_of(gold, choices, where)


def _classification(declared: Declared, shared: dict[str, Any]) -> Task:
    prompt, column = declared.text("prompt"), declared.text("label", "label")
    labels = texts_key(declared.values.get("labels"), "labels", declared.file)
    words = texts_key(declared.values.get("words", list(labels)), "words", declared.file)
    if len(words) != len(labels):
        raise ConfigError(f"{declared.file}: {len(labels)} labels, {len(words)} words; one for each")

    def parse(record: Record, where: str, name: str) -> list[TextPair]:
        gold = label_of(field_of(record, where, column), labels, where)
        return [TextPair(name, declared.filled(prompt, record, where), None, gold)]

    stripped = tuple(word.strip() for word in words)
    source = declared.source(parse)
    return TextClassification(
        source=source, labels=labels, words=stripped, prompt=lambda row: row.text, **shared
    )


def _generation(declared: Declared, shared: dict[str, Any]) -> Task:
    prompt, column = declared.text("prompt"), declared.text("answer", "answer")
    stop, most = declared.values.get("stop", "\n"), declared.values.get("max_tokens", 64)
    if not isinstance(most, int) or most < 1:
        raise ConfigError(f"{declared.file}: max_tokens must be a whole number from 1, is {most!r:.40}")

    def parse(record: Record, where: str, name: str) -> list[Question]:
        answers = tuple(map(str, listed(field_of(record, where, column))))
        return [Question(name, "", declared.filled(prompt, record, where), answers)]

    return OwnAnswers(
        source=declared.source(parse),
        prompt=lambda row: row.question,
        stop=tuple(map(str, listed(stop))),
        max_tokens=most,
        measures=_measures(declared),
        pattern=_pattern(declared),
        **shared,
    )


def _measures(declared: Declared) -> tuple[Metric, ...]:
    offered: tuple[Metric, ...] = (EXACT_MATCH, WORD_F1, BLEU, CHRF, *ROUGE_METRICS)
    known = {metric.name: metric for metric in offered}
    names = list(map(str, listed(declared.values.get("metrics", ["exact_match", "f1"]))))
    for name in names:
        if name not in known:
            raise ConfigError(f"{declared.file}: unknown metric {name!r}; {did_you_mean(name, list(known))}")
    return tuple(known[name] for name in names)


def _pattern(declared: Declared) -> str | None:
    pattern = declared.values.get("pattern")
    if pattern is None:
        return None
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise ConfigError(
            f"{declared.file}: pattern {pattern!r:.60} is no regular expression: {error}"
        ) from None
    return str(pattern)


@dataclass(frozen=True, kw_only=True)
class OwnAnswers(AnsweringTask):
    """Free text, of which ``pattern`` picks out the answer, under the metrics that the file names."""

    pattern: str | None = None

    def read(self, text: str) -> str:
        """What the pattern finds first (its first group, if it has one); empty if it finds nothing."""
        if self.pattern is None:
            return super().read(text)
        found = re.search(self.pattern, text)
        return "" if found is None else (found[1] if found.re.groups else found[0]).strip()

    def judge(self, text: str, gold: Sequence[str]) -> dict[str, Any]:
        """What the metrics read; ROUGE against the first answer."""
        scores = {} if set(self.measures).isdisjoint(ROUGE_METRICS) else rouge(text, gold[0])
        return {**super().judge(text, gold), **scores}


def _preferences(declared: Declared, shared: dict[str, Any]) -> Task:
    columns = {name: declared.text(name, name) for name in ("chosen", "rejected")}
    if "prompt" in declared.values:
        columns["prompt"] = declared.text("prompt")

    def parse(record: Record, where: str, name: str) -> list[Preference]:
        given = {key: field_of(record, where, column) for key, column in columns.items()}
        return parse_preference(given, where, name)

    return PreferenceTask(source=declared.source(parse, ": a reply is empty, or both are equal"), **shared)


def _perplexity(declared: Declared, shared: dict[str, Any]) -> Task:
    column = declared.text("text", "text")

    def parse(record: Record, where: str, name: str) -> list[Document]:
        text = str(field_of(record, where, column))
        return [Document(name, text, len(text.split()), len(text.encode()))]

    return Perplexity(source=declared.source(parse), **shared)


TYPES: dict[str, tuple[Callable[[Declared, dict[str, Any]], Task], tuple[str, ...]]] = {
    "multiple_choice": (_multiple_choice, ("prompt", "choices", "answer")),
    "partial_choice": (_partial_choice, ("choices", "continuation", "answer")),
    "cloze": (_cloze, ("text", "choices", "answer")),
    "classification": (_classification, ("prompt", "labels", "label", "words")),
    "generation": (_generation, ("prompt", "answer", "stop", "max_tokens", "metrics", "pattern")),
    "perplexity": (_perplexity, ("text",)),
    "preferences": (_preferences, ("prompt", "chosen", "rejected")),
}
