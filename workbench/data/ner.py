"""Named entities: CoNLL files (word first, tag last) and Universal NER's IOB2 files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.data.files import read_lines
from workbench.data.rows import TaggedWords
from workbench.data.source import Record, Source
from workbench.errors import DataError

__all__ = ["NER_SOURCES"]


def _records(path: Path) -> Iterator[tuple[str, Record]]:
    """Sentences, separated by blank lines. In IOB2 files the columns are id, word, tag; ``#`` starts a comment."""
    numbered = path.suffix == ".iob2"
    words: list[str] = []
    tags: list[str] = []
    document = ""
    for number, line in enumerate([*read_lines(path, blank=True), ""], 1):
        where = f"{path}, line {number}"
        if numbered and line.startswith("#"):
            document = (
                line.split("=", 1)[1].strip() if line.startswith("# newdoc") and "=" in line else document
            )
        elif line.strip():
            word, tag = _cells(line, numbered, where)
            words.append(word)
            tags.append(tag)
        elif words:
            if words[0] != "-DOCSTART-":
                yield where, {"words": tuple(words), "tags": tuple(tags), "document": document}
            words, tags = [], []


def _cells(line: str, numbered: bool, where: str) -> tuple[str, str]:
    cells = line.split("\t") if "\t" in line else line.split()
    if len(cells) < (3 if numbered else 2):
        raise DataError(f"{where} has {len(cells)} column(s); expected a word and an IOB tag: {line!r:.40}")
    word, tag = (cells[1], cells[2]) if numbered else (cells[0], cells[-1])
    tag = tag.strip()
    if tag != "O" and tag[:2] not in ("B-", "I-"):
        raise DataError(f"{where}: {tag!r} is no IOB tag; allowed: O, B-TYPE, I-TYPE")
    return word, tag


def _parse(record: Record, where: str, row: str) -> list[TaggedWords]:
    cluster = record.get("document") or None
    return [TaggedWords(row, tuple(record["words"]), tuple(record["tags"]), cluster)]


def _source(name: str, folder: str, **files: str) -> Source[TaggedWords]:
    names = {split: (file, f"{folder}/{file}") for split, file in files.items()}
    return Source(name=name, files=names, parse=_parse, records=_records)


NER_SOURCES: dict[str, Source[TaggedWords]] = {
    source.name: source
    for source in (
        _source(
            "ner/uner_ewt",
            "ner",
            train="uner_en_ewt-ud-train.iob2",
            validation="uner_en_ewt-ud-dev.iob2",
            test="uner_en_ewt-ud-test.iob2",
        ),
        Source(
            name="ner/wnut17",
            files={
                "train": tuple(f"{p}wnut17train.conll" for p in ("", "wnut17_", "ner/wnut17_", "ner/")),
                "validation": tuple(f"{p}emerging.dev.conll" for p in ("", "wnut17_", "ner/wnut17_", "ner/")),
                "test": tuple(f"{p}emerging.test.annotated" for p in ("", "wnut17_", "ner/wnut17_", "ner/")),
            },
            parse=_parse,
            records=_records,
        ),
        Source(
            name="ner/conll2003",
            files={
                "train": ("eng.train", "train.txt", "conll2003/train.txt"),
                "validation": ("eng.testa", "valid.txt", "conll2003/valid.txt"),
                "test": ("eng.testb", "test.txt", "conll2003/test.txt"),
            },
            parse=_parse,
            records=_records,
        ),
    )
}
