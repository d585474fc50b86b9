"""Sentences of a reading experiment: texts in a table with regions of interest, and the surprisal of each region."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.characters import check_text
from workbench.data.corpus import read_corpus
from workbench.data.tables import check_column, is_table, read_table, text_column
from workbench.errors import DataError
from workbench.scoring.surprisal import Surprisal

__all__ = ["RegionText", "read_sentences", "region_table", "region_words"]

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class RegionText:
    """A text, its region of interest as the file gives it, where it stands, and the other cells of its row."""

    text: str
    region: str | None = None
    where: str = ""
    cells: Mapping[str, Any] = field(default_factory=dict)


def read_sentences(
    path: Path, *, text: str | None = None, region: str | None = None, limit: int | None = None
) -> list[RegionText]:
    """The first ``limit`` texts of a table (column ``text``), of a ``.txt`` file, one a line, or of a treebank.

    ``region`` is the column that names the region of interest, as :func:`region_words` takes it. Raises
    :class:`~workbench.errors.DataError` naming file and line for a missing column or an empty text.
    """
    if not is_table(path) or path.suffix == ".txt":
        if text or region:
            raise DataError(
                f"{path} is no table, so it has no column {text or region!r}; leave that option out"
            )
        return [RegionText(one) for one in read_corpus(path, limit).texts]
    found: list[RegionText] = []
    for where, row in read_table(path):
        if len(found) == limit:
            break
        column = text_column(list(row), text, where)
        check_column(region, list(row), where)
        value = check_text(str(row[column]), where)
        if not value.strip():
            raise DataError(f"{where}: empty {column}")
        cells = {name: cell for name, cell in row.items() if name not in (column, region)}
        found.append(RegionText(value, None if region is None else str(row[region]), where, cells))
    if not found:
        raise DataError(f"{path} has no rows")
    return found


def region_words(region: str, surprisal: Surprisal, where: str) -> list[int]:
    """Numbers of the words of a region: "4", "4-6" (from 0, the last included), or a phrase that stands there once.

    Raises :class:`~workbench.errors.DataError` that begins with ``where``.
    """
    words, text = surprisal.alignment.words, surprisal.alignment.text
    numbers = _NUMBERS.fullmatch(region.strip())
    if numbers is not None:
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if not first <= last < len(words):
            raise DataError(f"{where}: region {region} is not in the text's words, 0 to {len(words) - 1}")
        return list(range(first, last + 1))
    if not region.strip() or (count := text.count(region)) != 1:
        times = "is empty" if not region.strip() else f"{region!r} stands {count} times in the text"
        raise DataError(
            f"{where}: the region {times}; give word numbers from 0, such as 4 or 4-6, or a phrase"
        )
    start = text.index(region)
    return [n for n, (low, high) in enumerate(words) if low < start + len(region) and high > start]


def region_table(sentences: Sequence[RegionText], found: Sequence[Surprisal]) -> pd.DataFrame:
    """One row a text: its region's words, their number, bits and nats in all, and the row's other cells."""
    rows = []
    for number, (sentence, one) in enumerate(zip(sentences, found, strict=True)):
        assert sentence.region is not None, "read_sentences was given a region column"
        numbers = region_words(sentence.region, one, sentence.where)
        words = one.words()
        inside = words[words["word_number"].isin(numbers)]
        sums = {name: float(inside[name].sum(min_count=len(inside))) for name in ("bits", "nats")}
        counts = {"words": len(inside), "tokens": int(inside["tokens"].sum())}
        rows.append({"text": number, "region": " ".join(inside["word"]), **counts, **sums, **sentence.cells})
    return pd.DataFrame(rows)
