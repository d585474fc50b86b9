"""CoNLL-U: sentences with words, parts of speech and dependency trees (universaldependencies.org/format)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import DataError

__all__ = ["ConlluSentence", "ConlluWord", "read_conllu"]


@dataclass(frozen=True)
class ConlluWord:
    """One syntactic word. ``head`` is the position of its head in the sentence from 0, ``None`` for the root."""

    form: str
    lemma: str
    upos: str
    xpos: str
    features: str
    head: int | None
    relation: str
    space_after: bool


@dataclass(frozen=True)
class ConlluSentence:
    """One sentence; ``sent_id`` and ``text`` as its comments give them, empty where they do not."""

    sent_id: str
    text: str
    words: tuple[ConlluWord, ...]

    @property
    def forms(self) -> list[str]:
        """The words as written."""
        return [word.form for word in self.words]

    @property
    def written(self) -> str:
        """The sentence as its ``text`` comment has it, or its words with the spaces that follow them."""
        parts = (word.form + " " * word.space_after for word in self.words)
        return self.text or "".join(parts).rstrip()

    @property
    def space_after(self) -> list[bool]:
        """Whether a space follows each word."""
        return [word.space_after for word in self.words]


def read_conllu(
    path: str | Path, limit: int | None = None, *, skipped: list[str] | None = None
) -> list[ConlluSentence]:
    """The first ``limit`` sentences of a file, all by default.

    With a list ``skipped``, malformed sentences are left out, and the list gets the reasons.
    Multi-word tokens ("1-2") give their words and the spacing around them; empty nodes ("8.1") are skipped.

    Raises :class:`DataError` with file and line if the file is missing, not UTF-8, or a line is malformed.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    sentences: list[ConlluSentence] = []
    for start, block in _blocks(lines):
        if limit is not None and len(sentences) >= limit:
            break
        try:
            sentences.append(_sentence(path, start, block))
        except DataError as error:
            if skipped is None:
                raise
            skipped.append(str(error))
    if not sentences:
        raise DataError(f"{path} holds no sentences; a CoNLL-U file has ten tab-separated columns a word")
    return sentences


def _blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Runs of lines between blank ones, with the number of the first line, from 1."""
    block: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        line = line.rstrip("\r")
        if line.strip():
            block.append(line)
        elif block:
            if any(not one.startswith("#") for one in block):
                yield number - len(block), block
            block = []


def _sentence(path: Path, start: int, block: list[str]) -> ConlluSentence:
    comments: dict[str, str] = {}
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(block, start=start):
        if line.startswith("#"):
            name, _, value = line[1:].partition("=")
            comments[name.strip()] = value.strip()
        else:
            columns = line.split("\t")
            if len(columns) != 10:
                raise DataError(
                    f"{path}, line {number}: {len(columns)} columns; a CoNLL-U word has 10, tab-separated"
                )
            rows.append((number, columns))
    joined = _no_space_after(rows)
    words = [(n, c) for n, c in rows if c[0].isdigit()]
    position = {c[0]: i for i, (_, c) in enumerate(words)}
    parsed = tuple(_word(path, number, columns, position, columns[0] in joined) for number, columns in words)
    return ConlluSentence(comments.get("sent_id", ""), comments.get("text", ""), parsed)


def _no_space_after(rows: list[tuple[int, list[str]]]) -> set[str]:
    """Ids of the words that no space follows, inside multi-word tokens included."""
    joined: set[str] = set()
    for _, columns in rows:
        first, _, last = columns[0].partition("-")
        if last.isdigit() and first.isdigit():
            joined.update(str(i) for i in range(int(first), int(last)))
        if "SpaceAfter=No" in columns[9].split("|") and "." not in columns[0]:
            joined.add(last or first)
    return joined


def _word(path: Path, number: int, columns: list[str], position: dict[str, int], joined: bool) -> ConlluWord:
    head: int | None = None
    if columns[6] not in ("0", "_"):
        if columns[6] not in position:
            raise DataError(f"{path}, line {number}: head {columns[6]!r} is no word of the sentence")
        head = position[columns[6]]
    return ConlluWord(
        form=columns[1],
        lemma=columns[2],
        upos=columns[3],
        xpos=columns[4],
        features=columns[5],
        head=head,
        relation=columns[7],
        space_after=not joined,
    )
