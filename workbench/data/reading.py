"""Reading comprehension: SQuAD v1.1 and v2 (Rajpurkar et al. 2016, 2018), Children's Book Test (Hill et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from workbench.data.files import read_json, read_lines
from workbench.data.rows import Blanked, Question
from workbench.data.source import Hub, Record, Source, field_of
from workbench.errors import DataError

__all__ = ["SQUAD", "SQUAD_V2", "cbt_source"]


def _squad_records(path: Path) -> Iterator[tuple[str, Record]]:
    value = read_json(path)
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise DataError(f"{path} must be a JSON object with a list 'data'")
    for article in value["data"]:
        for number, paragraph in enumerate(article.get("paragraphs", ())):
            for question in paragraph.get("qas", ()):
                where = f"{path}, question {question.get('id')}"
                shared = {"context": paragraph.get("context"), "title": article.get("title", "")}
                yield where, {**question, **shared, "paragraph": f"{article.get('title', '')}-{number}"}


def _parse_squad(record: Record, where: str, row: str) -> list[Question]:
    texts = _answers(field_of(record, where, "answers"))
    if not texts:
        raise DataError(f"{where} has no answer; SQuAD v1.1 has one at least, v2 is --task squadv2")
    return [_question(record, where, row, texts)]


def _parse_squad_v2(record: Record, where: str, row: str) -> list[Question]:
    answers = record.get("answers")
    if answers is None:
        raise DataError(
            f"{where}: column 'answers' is missing; a question without an answer has an empty list"
        )
    texts = _answers(answers)
    if record.get("is_impossible", not texts) != (not texts):
        raise DataError(
            f"{where}: is_impossible is {record['is_impossible']}, and it has {len(texts)} answers"
        )
    return [_question(record, where, row, texts)]


def _answers(answers: Any) -> list[Any]:
    """The texts, from the published files' list or the hub's columns."""
    return answers["text"] if isinstance(answers, dict) else [answer["text"] for answer in answers]


def _question(record: Record, where: str, row: str, texts: Iterable[Any]) -> Question:
    context = field_of(record, where, "context")
    return Question(
        row,
        context,
        str(field_of(record, where, "question")).strip(),
        tuple(dict.fromkeys(map(str, texts))),
        str(record.get("title") or ""),
        cluster=str(record.get("paragraph") or context),
    )


def _squad(
    name: str, version: str, more: str, parse: Callable[[Record, str, str], list[Question]], hub: str
) -> Source[Question]:
    """A version of SQuAD; ``more`` is another name of its validation file."""

    def named(*files: str) -> tuple[str, ...]:
        return tuple(f"{folder}{file}" for folder in ("", "squad/") for file in files)

    return Source(
        name=name,
        files={
            "train": named(f"train-{version}.json"),
            "validation": named(f"dev-{version}.json", more),
        },
        parse=parse,
        hub=Hub(hub),
        records=_squad_records,
    )


SQUAD = _squad("squad", "v1.1", "xquad.en.json", _parse_squad, "rajpurkar/squad")
SQUAD_V2 = _squad("squadv2", "v2.0", "dev-v2.0_cs224n.json", _parse_squad_v2, "rajpurkar/squad_v2")


_GAP = "XXXXX"


def cbt_source(variant: str) -> Source[Blanked]:
    """``CN`` leaves out common nouns, ``NE`` named entities."""
    names = {
        "train": "train",
        "validation": "valid_2000ex",
        "test": "test_2500ex",
    }
    folders = ("", "CBTest/data/", "data/", "cbt/")
    return Source(
        name=f"cbt_{variant.lower()}",
        files={split: tuple(f"{f}cbtest_{variant}_{n}.txt" for f in folders) for split, n in names.items()},
        parse=_parse_cbt,
        hub=Hub("cam-cst/cbt", variant),
        records=_cbt_records,
    )


def _cbt_records(path: Path) -> Iterator[tuple[str, Record]]:
    """Numbered lines 1 to 20, then line 21 with query, answer, and candidates after two tabs."""
    sentences: list[str] = []
    for number, line in enumerate(read_lines(path, blank=True), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        place, _, rest = line.partition(" ")
        if place != "21":
            sentences.append(rest)
            continue
        cells = [cell for cell in rest.split("\t") if cell]
        if len(cells) != 3:
            raise DataError(f"{where}: line 21 has {len(cells)} parts; expected query, answer, candidates")
        query, answer, options = cells
        yield (
            where,
            {
                "sentences": sentences,
                "question": query,
                "answer": answer,
                "options": options.split("|"),
            },
        )
        sentences = []


def _parse_cbt(record: Record, where: str, row: str) -> list[Blanked]:
    before, gap, after = str(record["question"]).partition(_GAP)
    candidates, answer = tuple(record["options"]), str(record["answer"])
    if not gap:
        raise DataError(f"{where}: the query has no gap {_GAP}: {record['question']!r:.60}")
    if answer not in candidates:
        raise DataError(f"{where}: the answer {answer!r} is not among the candidates")
    passage = " ".join(map(str, record["sentences"]))
    return [Blanked(row, passage, before, after, candidates, (answer,), None)]
