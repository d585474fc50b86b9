"""SQuAD v1.1 (Rajpurkar et al. 2016) and sets in its JSON form, such as XQuAD."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.data.files import read_json
from workbench.data.rows import Question
from workbench.data.source import Hub, Record, Source, field_of
from workbench.errors import DataError

__all__ = ["SQUAD"]


def _records(path: Path) -> Iterator[tuple[str, Record]]:
    value = read_json(path)
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise DataError(f"{path} must be a JSON object with a list 'data'")
    for article in value["data"]:
        for number, paragraph in enumerate(article.get("paragraphs", ())):
            for question in paragraph.get("qas", ()):
                where = f"{path}, question {question.get('id')}"
                shared = {"context": paragraph.get("context"), "title": article.get("title", "")}
                yield where, {**question, **shared, "paragraph": f"{article.get('title', '')}-{number}"}


def _parse(record: Record, where: str, row: str) -> list[Question]:
    answers = field_of(record, where, "answers")
    texts = answers["text"] if isinstance(answers, dict) else [a["text"] for a in answers]
    if not texts:
        raise DataError(f"{where} has no answer; SQuAD v1.1 has one at least (v2 has questions without)")
    context = field_of(record, where, "context")
    return [
        Question(
            row,
            context,
            str(field_of(record, where, "question")).strip(),
            tuple(dict.fromkeys(map(str, texts))),
            str(record.get("title") or ""),
            cluster=str(record.get("paragraph") or context),
        )
    ]


_NAMES = ("dev-v1.1.json", "xquad.en.json")
SQUAD: Source[Question] = Source(
    name="squad",
    files={
        "train": tuple(f"{p}train-v1.1.json" for p in ("", "squad/")),
        "validation": tuple(f"{p}{n}" for p in ("", "squad/") for n in _NAMES),
    },
    parse=_parse,
    hub=Hub("rajpurkar/squad"),
    records=_records,
)
