"""Number agreement of Gulordava et al. (2018): sentences from text, nonsense made from them, and two verb forms."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from challenge_sets.readers._rows import Row, table_rows
from workbench.data.files import find_file, read_lines, read_text
from workbench.errors import DataError

__all__ = ["GOLD_COLUMNS", "TargetItem", "is_gold", "read"]

_END = "<eos>"
# of generated.gold, which has no header
GOLD_COLUMNS = (
    "pattern",
    "constr_id",
    "sent_id",
    "position",
    "part of speech",
    "morphology",
    "correct",
    "wrong",
    "lemma",
    "cue",
    "cue's part of speech",
    "original",
)
_TAB_COLUMNS = ("pattern", "constr_id", "sent_id", "form", "class", "len_prefix", "sent")


class TargetItem(NamedTuple):
    """A sentence with a place for a verb, and its right and wrong form there.

    ``original`` names the sentence that it is, or was made from: one of 41 in English. ``sentence`` is 0 for the
    original itself and counts the nonsense sentences from 1. Words are as published, separated by blanks.
    """

    pattern: str
    original: str
    sentence: int
    before: str
    after: str
    correct: str
    wrong: str

    @property
    def id(self) -> str:
        """Original and number of the sentence."""
        return f"{self.original}/{self.sentence}"

    @property
    def is_original(self) -> bool:
        """Whether the sentence is from text."""
        return self.sentence == 0


def is_gold(path: Path) -> bool:
    """Whether a ``.gold`` file is in this format: twelve columns, where Linzen's has four."""
    lines = read_lines(path)
    return bool(lines) and lines[0].count("\t") == len(GOLD_COLUMNS) - 1


def read(path: Path | str) -> Iterator[TargetItem]:
    """Items of ``generated.text`` with ``generated.gold``, or of ``generated.tab``; ``path`` is a file or the folder.

    The word at the place in the text is another verb than the two forms, which are drawn anew for each nonsense
    sentence. Raises :class:`~workbench.errors.DataError` for files that do not go together, naming file and line.
    """
    path = Path(path)
    folder, stem = (path, _stem(path)) if path.is_dir() else (path.parent, path.stem)
    if path.suffix != ".tab" and (folder / f"{stem}.gold").is_file():
        yield from _from_gold(find_file(folder, f"{stem}.text"), folder / f"{stem}.gold")
    else:
        yield from _from_tab(find_file(folder, f"{stem}.tab", f"{stem}.gold"))


def _stem(folder: Path) -> str:
    """``generated``, or else the one name under which the folder holds a file in this format."""
    others = {file.stem for file in folder.glob("*.gold") if is_gold(file)} | {
        file.stem for file in folder.glob("*.tab")
    }
    return others.pop() if len(others) == 1 else "generated"


def _from_gold(text_path: Path, gold_path: Path) -> Iterator[TargetItem]:
    sentences = [line for line in read_lines(text_path) if line.strip()]
    gold = list(table_rows(gold_path, GOLD_COLUMNS, header=False))
    if len(sentences) != len(gold):
        raise DataError(
            f"{text_path} has {len(sentences)} lines, {gold_path} {len(gold)}; they must go line by line"
        )
    for sentence, row in zip(sentences, gold, strict=True):
        pattern = row["pattern"].split("!Number")[0]
        yield _item(row, pattern, sentence, row.integer("position"), row["correct"], row["wrong"])


def _from_tab(path: Path) -> Iterator[TargetItem]:
    """Two rows an item, of the right and the wrong form; cells with a quotation mark are quoted."""
    reader = csv.DictReader(io.StringIO(read_text(path)), delimiter="\t")
    for column in _TAB_COLUMNS:
        if column not in (reader.fieldnames or ()):
            raise DataError(f"{path}: no column {column!r}; it needs {', '.join(_TAB_COLUMNS)}")
    forms: dict[tuple[str, str, str], dict[str, Row]] = {}
    for cells in reader:
        row = Row(
            {key: value or "" for key, value in cells.items() if key}, f"{path}, line {reader.line_num}"
        )
        key = (row["pattern"], row["constr_id"], row["sent_id"])
        forms.setdefault(key, {})[row["class"]] = row
    for found in forms.values():
        row = next(iter(found.values()))
        if set(found) != {"correct", "wrong"}:
            raise DataError(f"{row.where}: an item needs a row of class correct and one of class wrong")
        correct, wrong = found["correct"]["form"], found["wrong"]["form"]
        yield _item(row, row["pattern"], row["sent"], row.integer("len_prefix"), correct, wrong)


def _item(row: Row, pattern: str, sentence: str, position: int, correct: str, wrong: str) -> TargetItem:
    words = sentence.split()
    words = words[:-1] if words and words[-1] == _END else words
    if not 0 < position < len(words):
        raise DataError(f"{row.where}: position {position} is outside the sentence of {len(words)} words")
    if correct == wrong:
        raise DataError(f"{row.where}: the two forms are equal: {correct!r:.60}")
    name = pattern.replace("!", "_")
    return TargetItem(
        pattern=name,
        original=f"{name}-{row.integer('constr_id')}",
        sentence=row.integer("sent_id"),
        before=" ".join(words[:position]),
        after=" ".join(words[position + 1 :]),
        correct=correct,
        wrong=wrong,
    )
