"""From a tokenizer's raw offsets to offsets that cover every character that became part of some token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.text.words import Span

__all__ = ["complete", "words_of_tokens"]


def complete(text: str, offsets: Sequence[Span], words: Sequence[Span]) -> tuple[Span, ...]:
    """Trim whitespace from each span, then give every uncovered character of a word to a neighbour in it.

    Characters are uncovered when the normaliser removed them (accents, zero-width and control characters).
    They go to the token before them in the word, or to the one after where they begin the word. A word
    without any token stays uncovered. Empty spans move to the end of the token before them.
    """
    spans = [_trimmed(text, span) for span in offsets]
    first = _owners(reversed(list(enumerate(spans))), len(text))
    last = _owners(enumerate(spans), len(text))
    for word in words:
        _fill_backwards(text, word, spans, first)
        _fill_forwards(text, word, spans, last)
    return tuple(_settled(spans))


def words_of_tokens(offsets: Sequence[Span], words: Sequence[Span]) -> tuple[int | None, ...]:
    """For each token the first word that it overlaps, or None."""
    solid = [(w, start, end) for w, (start, end) in enumerate(words) if start < end]
    ids: list[int | None] = []
    position = 0
    for start, end in offsets:
        while position < len(solid) and solid[position][2] <= start:
            position += 1
        overlaps = position < len(solid) and start < end and solid[position][1] < end
        ids.append(solid[position][0] if overlaps else None)
    return tuple(ids)


def _trimmed(text: str, span: Span) -> Span:
    """``span`` without whitespace at either end, unless it is all whitespace."""
    start, end = span
    piece = text[start:end]
    if not piece.strip():
        return span
    return end - len(piece.lstrip()), start + len(piece.rstrip())


def _owners(spans: Iterable[tuple[int, Span]], length: int) -> list[int | None]:
    """For each character the token that covers it and comes last in ``spans``."""
    owner: list[int | None] = [None] * length
    for token, (start, end) in spans:
        owner[start:end] = [token] * (end - start)
    return owner


def _fill_forwards(text: str, word: Span, spans: list[Span], owner: list[int | None]) -> None:
    token: int | None = None
    for i in range(*word):
        if owner[i] is not None:
            token = owner[i]
        elif token is not None and not text[i].isspace():
            spans[token] = (spans[token][0], i + 1)


def _fill_backwards(text: str, word: Span, spans: list[Span], owner: list[int | None]) -> None:
    """Give the characters before the word's first covered one to the first token there."""
    start, end = word
    reached = next((i for i in range(start, end) if owner[i] is not None), None)
    if reached is None:
        return
    token = owner[reached]
    assert token is not None
    leading = next(i for i in range(start, reached + 1) if i == reached or not text[i].isspace())
    spans[token] = (min(spans[token][0], leading), spans[token][1])


def _settled(spans: Iterable[Span]) -> Iterable[Span]:
    position = 0
    for start, end in spans:
        if start < end:
            position = end
        yield (start, end) if start < end else (position, position)
