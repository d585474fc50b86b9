"""Winograd schemas: SuperGLUE's WSC, and pairs of contexts with one continuation (partial scoring)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from challenge_sets.readers._rows import refuse_equal
from workbench.characters import check_text
from workbench.data.files import find_file, read_jsonl, text_field
from workbench.errors import DataError

__all__ = ["PartialItem", "WscItem", "read_partial", "read_wsc"]


class WscItem(NamedTuple):
    """A text, a noun phrase and a pronoun in it, and whether the two refer to the same thing.

    Positions count words of ``text`` split at single spaces.
    """

    id: str
    text: str
    noun: str
    noun_position: int
    pronoun: str
    pronoun_position: int
    same: bool | None


class PartialItem(NamedTuple):
    """Contexts that differ in the noun put for a pronoun, and the continuation that follows them all."""

    id: str
    contexts: tuple[str, ...]
    continuation: str
    gold: int


def _position(target: dict[str, Any], name: str, text: str, where: str) -> int:
    value = target.get(name)
    words = len(text.split(" "))
    if not isinstance(value, int) or not 0 <= value < words:
        raise DataError(f"{where}: {name} must be from 0 to {words - 1}, is {value!r:.40}")
    return value


def read_wsc(path: Path | str) -> Iterator[WscItem]:
    """Items of SuperGLUE's WSC in its JSONL form; ``same`` is None where the split has no labels."""
    path = Path(path)
    file = find_file(path, "val.jsonl") if path.is_dir() else path
    for number, record in read_jsonl(file):
        where = f"{file}, line {number}"
        text, target = text_field(record, "text", where), record.get("target")
        if not isinstance(target, dict):
            raise DataError(f"{where}: no object 'target'")
        same = record.get("label")
        if same is not None and not isinstance(same, bool):
            raise DataError(f"{where}: label must be true or false, is {same!r:.40}")
        yield WscItem(
            id=str(record.get("idx", number - 1)),
            text=text,
            noun=text_field(target, "span1_text", where),
            noun_position=_position(target, "span1_index", text, where),
            pronoun=text_field(target, "span2_text", where),
            pronoun_position=_position(target, "span2_index", text, where),
            same=same,
        )


def read_partial(path: Path | str) -> Iterator[PartialItem]:
    """Items with ``context_options``, ``continuation`` and ``gold``: WinoGrande and WSC in partial scoring."""
    for number, record in read_jsonl(path):
        where = f"{path}, line {number}"
        contexts = record.get("context_options")
        if (
            not isinstance(contexts, list)
            or len(contexts) < 2
            or not all(isinstance(c, str) for c in contexts)
        ):
            raise DataError(f"{where}: context_options must be two or more texts, is {contexts!r:.60}")
        refuse_equal(contexts[0], contexts[1], where)
        gold = record.get("gold")
        if isinstance(gold, bool) or not isinstance(gold, int) or not 0 <= gold < len(contexts):
            raise DataError(f"{where}: gold must be from 0 to {len(contexts) - 1}, is {gold!r:.40}")
        yield PartialItem(
            id=str(number - 1),
            contexts=tuple(check_text(context, where) for context in contexts),
            continuation=text_field(record, "continuation", where),
            gold=gold,
        )
