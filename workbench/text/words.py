"""Where the words of a text are, as half-open character spans."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from workbench.characters import check_text
from workbench.errors import DataError

__all__ = ["Span", "checked", "join_words", "split_words"]


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Yield each of ``texts``, checked; the error names the index of the bad one."""
    if isinstance(texts, str):
        raise DataError(f"texts must be several strings, got one str {texts!r:.60}; write [text]")
    for index, text in enumerate(texts):
        yield check_text(text, where=f"text {index}")


Span: TypeAlias = tuple[int, int]


def split_words(text: str, *, punctuation: bool = False) -> tuple[Span, ...]:
    """Spans of the words of ``text``: maximal runs without whitespace, in order.

    With ``punctuation``, each punctuation mark or symbol (Unicode categories P and S) is a word of its own;
    combining marks and invisible format characters stay with what they follow.
    Together the words hold every character for which ``str.isspace`` is false.
    """
    words: list[Span] = []
    start: int | None = None
    for i, char in enumerate(text):
        alone = punctuation and unicodedata.category(char)[0] in "PS"
        if start is not None and (alone or char.isspace() or _ends_a_mark(text, start, i, punctuation)):
            words.append((start, i))
            start = None
        if start is None and not char.isspace():
            start = i
    if start is not None:
        words.append((start, len(text)))
    return tuple(words)


def join_words(
    words: Sequence[str], space_after: Sequence[bool] | None = None
) -> tuple[str, tuple[Span, ...]]:
    """The text that ``words`` make, and the span of each word in it.

    ``space_after[i]`` says whether a space follows word ``i`` (CoNLL-U's ``SpaceAfter=No`` is false); by
    default one always does.
    """
    if isinstance(words, str):
        raise DataError(f"words must be a list of str, got one str {words!r:.60}; write words.split()")
    spaces = [True] * len(words) if space_after is None else list(space_after)
    if len(spaces) != len(words):
        raise DataError(
            f"space_after has {len(spaces)} entries for {len(words)} words; give one for each word"
        )
    parts: list[str] = []
    spans: list[Span] = []
    position = 0
    for index, (word, space) in enumerate(zip(words, spaces, strict=True)):
        check_text(word, where=f"word {index}")
        spans.append((position, position + len(word)))
        parts.append(word + " " * (space and index + 1 < len(words)))
        position += len(parts[-1])
    return "".join(parts), tuple(spans)


def _ends_a_mark(text: str, start: int, i: int, punctuation: bool) -> bool:
    """Whether the word begun at ``start`` is a punctuation mark that character ``i`` no longer belongs to."""
    if not punctuation or unicodedata.category(text[start])[0] not in "PS":
        return False
    return unicodedata.category(text[i]) not in {"Mn", "Mc", "Me", "Cf"}
