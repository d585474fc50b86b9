"""Character offsets of tokens, as tokenizers report them, and made to cover every character of the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.text._reconstruct import reconstruct_offsets
from workbench.text.words import Span

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["RawEncoding", "complete", "raw_encoding", "words_of_tokens"]


@dataclass(frozen=True)
class RawEncoding:
    """What a tokenizer makes of a text; ``offsets`` may miss characters and include leading spaces."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    offsets: tuple[Span, ...]


def raw_encoding(
    text: str, tokenizer: PreTrainedTokenizerBase, *, add_special_tokens: bool, parse_special: bool
) -> RawEncoding:
    """Encode the whole of ``text``: never truncated, never padded, whatever the tokenizer's file sets."""
    encode = _fast if tokenizer.is_fast else _slow
    return encode(text, tokenizer, add_special_tokens, parse_special)


def _fast(
    text: str, tokenizer: PreTrainedTokenizerBase, add_special_tokens: bool, parse_special: bool
) -> RawEncoding:
    encoding = tokenizer(
        text,
        add_special_tokens=add_special_tokens,
        split_special_tokens=not parse_special,
        return_offsets_mapping=True,
        truncation=False,
        padding=False,
        verbose=False,
    )
    return RawEncoding(
        tokens=tuple(encoding.tokens()),
        ids=tuple(encoding["input_ids"]),
        offsets=tuple((int(start), int(end)) for start, end in encoding["offset_mapping"]),
    )


def _slow(
    text: str, tokenizer: PreTrainedTokenizerBase, add_special_tokens: bool, parse_special: bool
) -> RawEncoding:
    tokens = tokenizer.tokenize(text, split_special_tokens=not parse_special)
    inner = _ids(tokens, tokenizer)
    offsets = reconstruct_offsets(text, tokens, tokenizer)
    if not add_special_tokens:
        return RawEncoding(tuple(tokens), tuple(inner), tuple(offsets))
    ids = list(tokenizer.build_inputs_with_special_tokens(inner))
    before = _position(inner, ids)
    added_before, added_after = ids[:before], ids[before + len(inner) :]
    names = tokenizer.convert_ids_to_tokens
    return RawEncoding(
        tokens=(*names(added_before), *tokens, *names(added_after)),
        ids=tuple(ids),
        offsets=((0, 0),) * len(added_before) + tuple(offsets) + ((len(text), len(text)),) * len(added_after),
    )


def _ids(tokens: list[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    ids = tokenizer.convert_tokens_to_ids(tokens)
    assert isinstance(ids, list), "a list of tokens has a list of ids"
    return ids


def _position(inner: list[int], ids: list[int]) -> int:
    """Where ``inner`` begins within ``ids``."""
    starts = range(len(ids) - len(inner) + 1)
    return next((i for i in starts if ids[i : i + len(inner)] == inner), 0)


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
