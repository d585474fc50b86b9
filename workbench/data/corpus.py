"""A corpus in one file (a text per line, or the sentences of a CoNLL-U treebank), or on the hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from workbench.characters import check_text
from workbench.data._dataset import DataIdentity, content_hash
from workbench.data.conllu import ConlluSentence, read_conllu
from workbench.data.files import read_lines
from workbench.data.hub import hub_rows, is_hub_name
from workbench.data.tables import table_name, text_column
from workbench.errors import DataError

__all__ = ["Corpus", "read_corpus"]


@dataclass(frozen=True)
class Corpus:
    """The lines of a text file, or the ``trees`` of a treebank; the other one is empty."""

    identity: DataIdentity
    lines: Sequence[str] = ()
    trees: Sequence[ConlluSentence] = ()

    @property
    def texts(self) -> list[str]:
        """All of them as texts."""
        return [*self.lines, *(tree.written for tree in self.trees)]

    def __len__(self) -> int:
        return len(self.lines) + len(self.trees)


def read_corpus(path: str | Path, limit: int | None = None) -> Corpus:
    """The first ``limit`` texts of a file: CoNLL-U if its name ends in ``.conllu``, else one text a line.

    Blank lines of a text file separate texts and are none themselves. A data set on the hub
    (``hub:owner/name:configuration:split``) gives its column ``text`` or ``sentence``, a text a row; rows without one
    are left out. Raises
    :class:`~workbench.errors.DataError` for a file that is missing, empty, not UTF-8 or malformed.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise DataError(f"limit is {limit}; allowed: 1 or more, or leave it out for the whole file")
    if is_hub_name(path):
        return _from_hub(path, limit)
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a text file or a .conllu file")
    if path.suffix.lower() == ".conllu":
        trees = read_conllu(path, limit)
        digest = content_hash(f"{w.form}\t{w.head}\t{w.relation}" for tree in trees for w in tree.words)
        return Corpus(DataIdentity(path.stem, str(path), digest, len(trees)), trees=trees)
    numbered = enumerate(read_lines(path, blank=True), start=1)
    lines = [check_text(line, f"{path}, line {n}") for n, line in numbered if line.strip()][:limit]
    return Corpus(DataIdentity(path.stem, str(path), content_hash(lines), len(lines)), lines=lines)


def _from_hub(name: Path, limit: int | None) -> Corpus:
    lines = list(islice(_hub_texts(name), limit))
    if not lines:
        raise DataError(f"{name} has no rows with a text")
    return Corpus(DataIdentity(table_name(name), str(name), content_hash(lines), len(lines)), lines=lines)


def _hub_texts(name: Path) -> Iterator[str]:
    """The texts of the rows; those that are missing or blank are left out."""
    column = None
    for where, row in hub_rows(name):
        column = column or text_column(list(row), None, name)
        if row[column] is not None and str(row[column]).strip():
            yield check_text(str(row[column]), where)
