"""Children's Book Test (Hill et al. 2016): twenty sentences, then one with a word left out and ten candidates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.data.files import read_lines
from workbench.data.rows import Blanked
from workbench.data.source import Hub, Record, Source
from workbench.errors import DataError

__all__ = ["cbt_source"]

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
        parse=_parse,
        hub=Hub("cam-cst/cbt", variant),
        records=_records,
    )


def _records(path: Path) -> Iterator[tuple[str, Record]]:
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


def _parse(record: Record, where: str, row: str) -> list[Blanked]:
    before, gap, after = str(record["question"]).partition(_GAP)
    candidates, answer = tuple(record["options"]), str(record["answer"])
    if not gap:
        raise DataError(f"{where}: the query has no gap {_GAP}: {record['question']!r:.60}")
    if answer not in candidates:
        raise DataError(f"{where}: the answer {answer!r} is not among the candidates")
    passage = " ".join(map(str, record["sentences"]))
    return [Blanked(row, passage, before, after, candidates, (answer,), None)]
