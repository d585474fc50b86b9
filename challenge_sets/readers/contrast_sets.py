"""Contrast sets (Gardner et al. 2020): an original example with edits that change, or keep, its label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from challenge_sets.readers._rows import one_of, table_rows
from workbench.characters import check_text
from workbench.data.files import find_fitting, read_json
from workbench.data.tables import has_columns
from workbench.errors import DataError

__all__ = ["ContrastSet", "Member", "is_boolq", "read_boolq", "read_imdb"]

_IMDB = ("Sentiment", "Text")
_SENTIMENTS = ("Positive", "Negative")
_PLACEHOLDER = "Gold Answer"  # the first entry of the BoolQ file explains the fields


class Member(NamedTuple):
    """One example: its texts (question and passage, or the review) and its label."""

    texts: tuple[str, ...]
    label: str
    original: bool


class ContrastSet(NamedTuple):
    """Examples that belong together; a model is consistent if it has all of them right."""

    id: str
    source: str
    members: tuple[Member, ...]


def _unquoted(text: str) -> str:
    """The IMDb files quote reviews that hold a quotation mark, doubling it; the others are as they are."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('""', '"')
    return text


def _reviews(path: Path, *, original: bool) -> list[Member]:
    members = []
    for row in table_rows(path, _IMDB):
        label = one_of(row["Sentiment"], _SENTIMENTS, row.where, "Sentiment").lower()
        members.append(Member((_unquoted(row["Text"]),), label, original))
    return members


def _file_of_imdb(folder: Path, split: str, kind: str) -> Path:
    def fits(path: Path) -> bool:
        return split in path.name and kind in path.name and has_columns(path, _IMDB)

    what = f"the columns {', '.join(_IMDB)} and {split} and {kind} in the name"
    return find_fitting(folder, fits, what, f"imdb_{split}_{kind}.tsv", f"{split}_{kind}.tsv")


def read_imdb(folder: Path | str, split: str = "test") -> Iterator[ContrastSet]:
    """Pairs of an original and an edited review, whose labels differ.

    ``folder`` holds ``imdb_<split>_original.tsv`` and ``imdb_<split>_contrast.tsv`` (or the same names
    without ``imdb_``, as published). Raises :class:`~workbench.errors.DataError` if the files do not go
    line by line. ``<br />`` stays in the text.
    """
    before_path, after_path = (_file_of_imdb(Path(folder), split, kind) for kind in ("original", "contrast"))
    before, after = _reviews(before_path, original=True), _reviews(after_path, original=False)
    if len(before) != len(after):
        raise DataError(
            f"{before_path} has {len(before)} reviews, {after_path} {len(after)}; they go line by line"
        )
    for index, (first, second) in enumerate(zip(before, after, strict=True)):
        if first.label == second.label:
            raise DataError(
                f"{after_path}, line {index + 2}: the label is that of the original, {first.label!r}"
            )
        yield ContrastSet(str(index), "imdb", (first, second))


def _field(record: Any, name: str, where: str) -> str:
    if not isinstance(record, dict) or not isinstance(record.get(name), str):
        raise DataError(f"{where}: no text field {name!r}")
    return check_text(record[name], where)


def _question(question: str, passage: str, answer: str, where: str, *, original: bool) -> Member:
    label = one_of(answer.upper(), ("TRUE", "FALSE"), where, "answer")
    return Member((question, passage), "yes" if label == "TRUE" else "no", original)


def is_boolq(path: Path) -> bool:
    """Whether a file is in BoolQ's form: an object with a list ``data`` of entries with ``perturbed_questions``."""
    if path.suffix != ".json":
        return False
    try:
        content = read_json(path)
    except DataError:
        return False
    entries = content.get("data") if isinstance(content, dict) else None
    return isinstance(entries, list) and any(
        isinstance(entry, dict) and "perturbed_questions" in entry for entry in entries
    )


def read_boolq(path: Path | str) -> Iterator[ContrastSet]:
    """Questions about a passage with their perturbations, from ``boolq_perturbed.json`` or its folder.

    Labels are ``yes`` and ``no``. The file's first entry explains the fields and is no example, and five
    perturbed questions are empty; both are left out: 69 sets with 335 perturbed questions.
    """
    file = find_fitting(path, is_boolq, "perturbed questions", "boolq_perturbed.json")
    content = read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise DataError(f"{file}: must be an object with a list 'data'")
    for index, entry in enumerate(content["data"]):
        where = f"{file}, data[{index}]"
        passage, answer = _field(entry, "paragraph", where), _field(entry, "answer", where)
        if answer == _PLACEHOLDER:
            continue
        members = [_question(_field(entry, "question", where), passage, answer, where, original=True)]
        for changed in entry.get("perturbed_questions", []):
            question = _field(changed, "perturbed_q", where)
            if question:
                given = _field(changed, "answer", where)
                members.append(_question(question, passage, given, where, original=False))
        yield ContrastSet(str(index), "boolq", tuple(members))
