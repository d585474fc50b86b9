"""Tasks from files with a label a line: IOB2 entities, CSV and TSV tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from probes._data import Place, ProbeData, ProbeItem, Unit, Words
from probes.tasks._task import ProbeTask, probe_data, register
from workbench.data.files import read_lines, text_field
from workbench.data.tables import Row, class_label, table_name
from workbench.data.tables import read_table as read_records
from workbench.errors import DataError

__all__ = ["read_iob2", "read_table"]

_ENTITY = "the IOB2 tag of a named entity, O outside"
_LABEL = "the column label of a table"


def read_iob2(path: Path, limit: int | None = None) -> ProbeData:
    """Words with IOB2 tags: ``word TAB tag``, or ``number TAB word TAB tag TAB …`` with comments.

    Sentences end at an empty line. Raises :class:`DataError` with file and line for a word without a tag.
    """
    first = next((row for line in read_lines(path, blank=True) if len(row := line.split("\t")) > 2), [""])
    numbered = first[0] == "1"
    words: list[Words] = []
    items: list[ProbeItem] = []
    for start, rows in _sentences(path, numbered):
        if limit is not None and len(words) >= limit:
            break
        forms = tuple(form for form, _ in rows)
        items += [
            ProbeItem((Place(len(words), w, w + 1),), tag, form.lower()) for w, (form, tag) in enumerate(rows)
        ]
        words.append(Words(forms, None, "", f"{path}, line {start}"))
    return probe_data("ner", Unit.WORD, tuple(words), items, (path.stem, str(path)), _ENTITY)


def _sentences(path: Path, numbered: bool) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """(form, tag) of each sentence, and the line where it begins."""
    rows: list[tuple[str, str]] = []
    first = 1
    for number, line in enumerate([*read_lines(path, blank=True), ""], start=1):
        if numbered and line.startswith("#"):
            continue
        if not line.strip():
            if rows:
                yield first, rows
            rows, first = [], number + 1
            continue
        columns = line.split("\t")[numbered:]
        if len(columns) < 2 or not columns[0].strip():
            raise DataError(
                f"{path}, line {number} (sentence {first}): {line[:40]!r} is no word with a tag; "
                "words and labels must be of one number"
            )
        tag = columns[1].strip()
        if tag != "O" and tag[:2] not in ("B-", "I-"):
            raise DataError(f"{path}, line {number}: tag {tag!r} is not IOB2; allowed: O, B-TYPE, I-TYPE")
        rows.append((columns[0].strip(), tag))


def read_table(path: Path, limit: int | None = None) -> ProbeData:
    """A table (CSV, TSV, JSONL, Parquet) with a column ``label``, and ``text`` or ``sentence``: a label of each text.

    With a column ``word`` (position from 0) the label is of that word; with ``words`` and ``labels`` (both
    space-separated) of each word. Raises :class:`DataError` with file and line.
    """
    rows = list(islice(read_records(path), limit))
    names = set(rows[0][1]) if rows else set()
    text = next((n for n in ("text", "sentence") if n in names), None)
    if {"words", "labels"} <= names:
        return _word_table(path, rows)
    if text is None or "label" not in names:
        raise DataError(
            f"{path}, line 1: columns {', '.join(map(repr, sorted(names)))}; needed are 'text' and 'label', "
            "or 'words' and 'labels'"
        )
    words: list[Words] = []
    items: list[ProbeItem] = []
    for where, row in rows:
        forms = tuple(text_field(row, text, where).split())
        if not forms:
            raise DataError(f"{where}: the text is empty")
        place, form = Place(len(words), 0, len(forms)), row[text].lower()
        if "word" in names:
            place, form = _one_word(where, str(row.get("word")), forms, len(words))
        items.append(ProbeItem((place,), class_label(row.get("label"), where), form))
        words.append(Words(forms, None, "", where))
    unit = Unit.WORD if "word" in names else Unit.SENTENCE
    return probe_data("table", unit, tuple(words), items, (table_name(path), str(path)), _LABEL)


def _one_word(where: str, given: str, forms: tuple[str, ...], sentence: int) -> tuple[Place, str]:
    if not given.strip().isdigit() or int(given) >= len(forms):
        raise DataError(f"{where}: word {given!r} is not a position from 0 to {len(forms) - 1}")
    return Place(sentence, int(given), int(given) + 1), forms[int(given)].lower()


def _word_table(path: Path, rows: list[tuple[str, Row]]) -> ProbeData:
    words, items = [], []
    for sentence, (where, row) in enumerate(rows):
        forms, labels = (tuple(text_field(row, name, where).split()) for name in ("words", "labels"))
        if len(forms) != len(labels):
            raise DataError(f"{where}: {len(forms)} words but {len(labels)} labels")
        items += [
            ProbeItem((Place(sentence, w, w + 1),), class_label(label, where), form.lower())
            for w, (form, label) in enumerate(zip(forms, labels, strict=True))
        ]
        words.append(Words(forms, None, "", where))
    return probe_data("table", Unit.WORD, tuple(words), items, (table_name(path), str(path)), _LABEL)


register(ProbeTask("ner", Unit.WORD, _ENTITY, read=read_iob2, formats="IOB2, a word and its tag a line"))
register(
    ProbeTask(
        "table",
        Unit.SENTENCE,
        _LABEL,
        read=read_table,
        formats="CSV, TSV, JSONL or Parquet with text and label",
    )
)
