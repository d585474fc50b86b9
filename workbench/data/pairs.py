"""Pairs of texts, a source and its target: a table with a column for each, or two files aligned line by line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from workbench.characters import check_text
from workbench.data.corpus_stream import corpus_hash
from workbench.data.files import read_lines
from workbench.data.hub import is_hub_name
from workbench.data.source import Record
from workbench.data.tables import FORMATS, is_table, read_table
from workbench.data.word_links import WordLinks
from workbench.errors import DataError

__all__ = ["LinkedPair", "ParallelPair", "aligned_lines", "pairs_hash", "read_linked_pairs", "read_pairs"]


@dataclass(frozen=True)
class ParallelPair:
    """A text and what it should become."""

    source: str
    target: str


@dataclass(frozen=True)
class LinkedPair(ParallelPair):
    """A pair with the links between its words, which spaces separate."""

    links: WordLinks


def read_pairs(place: str | Path, source: str = "source", target: str = "target") -> list[ParallelPair]:
    """The pairs at ``place``: a table with the columns ``source`` and ``target``, or the files ``PLACE.source`` and
    ``PLACE.target``, of which equal lines belong together (as in Moses, ``train.en`` and ``train.fr``).

    Raises :class:`~workbench.errors.DataError` if neither is there, for files of unequal length, and for a text that
    is missing or blank, naming file and line.

    Example:
        ```python
        from pathlib import Path

        from workbench.data.pairs import read_pairs

        Path("train.en").write_text("a dog\\ntwo men\\n")
        Path("train.fr").write_text("un chien\\ndeux hommes\\n")
        print(read_pairs("train", "en", "fr")[0])
        ```
    """
    pairs = [
        ParallelPair(*_texts(row, where, source, target)) for where, row in _records(place, source, target)
    ]
    if not pairs:
        raise DataError(f"{place} has no pairs")
    return pairs


def read_linked_pairs(place: str | Path, limit: int | None = None) -> list[LinkedPair]:
    """The first ``limit`` pairs of a table with the columns ``source``, ``target`` and ``alignment``.

    An alignment is written ``0-1 1-0 1?2``: see :class:`~workbench.data.word_links.WordLinks`. Raises
    :class:`~workbench.errors.DataError` for anything else, naming file and line.

    Example:
        ```python
        from pathlib import Path

        from workbench.data.grammar.invented import write_pairs
        from workbench.data.pairs import read_linked_pairs

        *_, test = write_pairs(Path("pairs"), train=20, held_out=5)
        print(read_linked_pairs(test, limit=1))
        ```
    """
    if not is_table(place):
        raise DataError(
            f"no table at {place}: give one ({', '.join(FORMATS)}) with source, target, alignment"
        )
    columns = ("source", "target", "alignment")
    found = []
    for where, row in islice(read_table(place, needs=columns), limit):
        source, target, alignment = _texts(row, where, *columns)
        links = WordLinks.parse(alignment, where)
        links.check(len(source.split()), len(target.split()), where)
        found.append(LinkedPair(source, target, links))
    if not found:
        raise DataError(f"{place} has no pairs")
    return found


def pairs_hash(place: str | Path, source: str, target: str) -> str:
    """SHA-256 over the bytes of the files, the source's first; of a table as :func:`corpus_hash`."""
    files = _line_files(place, source, target)
    if files is None:
        return corpus_hash(place)
    return hashlib.sha256(" ".join(map(corpus_hash, files)).encode()).hexdigest()


def aligned_lines(path: Path, source: str, target: str) -> Iterator[tuple[str, Record]]:
    """Where each line stands, and its text with that of the same line of the file that ends in ``.target`` instead.

    Raises :class:`~workbench.errors.DataError` for an empty line and for files of unequal length.
    """
    other = path.with_suffix(f".{target}")
    lines, references = read_lines(path), read_lines(other)
    if len(lines) != len(references):
        raise DataError(
            f"{path} has {len(lines)} lines and {other.name} {len(references)}; they must be aligned"
        )
    for number, (text, reference) in enumerate(zip(lines, references, strict=True), 1):
        yield f"{path}, line {number}", {source: text, target: reference}


def _records(place: str | Path, source: str, target: str) -> Iterator[tuple[str, Record]]:
    files = _line_files(place, source, target)
    if files is not None:
        return aligned_lines(files[0], source, target)
    if not is_table(place) or not (is_hub_name(place) or Path(place).is_file()):
        raise DataError(
            f"no pairs at {place}: give a table ({', '.join(FORMATS)}) with the columns {source} and {target}, or "
            f"what the names of two aligned files begin with ({place}.{source} and {place}.{target})"
        )
    return read_table(place, needs=(source, target))


def _line_files(place: str | Path, source: str, target: str) -> tuple[Path, Path] | None:
    """The two files, if the first is there."""
    first = Path(f"{place}.{source}").expanduser()
    return (first, first.with_suffix(f".{target}")) if not is_hub_name(place) and first.is_file() else None


def _texts(row: Record, where: str, *columns: str) -> Iterator[str]:
    for column in columns:
        text = row[column]
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{where}: {column!r} is {text!r:.40}; a pair needs a text there")
        yield check_text(text, where)
