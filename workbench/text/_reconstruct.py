"""Offsets for tokenizers that give none (those written in Python), from the pieces themselves.

Text and pieces are both turned into a row of atoms, each of which knows its character or its piece. Three
readings of the pieces are tried, each exact or not at all: pieces that spell bytes one by one (ByT5), pieces
that spell bytes with GPT-2's printable alphabet, and pieces that spell characters after case, accents and
compatibility forms are set aside. Where a piece spells nothing (an unknown token), the text is aligned word
by word instead: a short one piece after piece, a longer one by the longest matching runs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeAlias

from workbench.text._pipelines import BYTE_NAMES
from workbench.text.words import Span

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["reconstruct_offsets"]

# An atom and the index of the character, or of the piece, that it comes from.
Atoms: TypeAlias = list[tuple[object, int]]
Reading: TypeAlias = Callable[[str], "Sequence[object] | None"]

BYTE_OF_NAME = {name: value for value, name in enumerate(BYTE_NAMES)}
MARKERS = re.compile(r"^(##|▁+|Ġ+|<w>)|(</w>|@@|▁+)$")
ASCII_SPACE = b" \t\n\r\x0b\x0c"
LONGEST_PATTERN, MOST_UNKNOWN = 100, 4  # a match takes a time of their power


def reconstruct_offsets(text: str, pieces: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[Span]:
    """A span of ``text`` for each of ``pieces``, in order; empty for a piece that stands for no character."""
    readings = ((_latin_bytes, _text_bytes), (_gpt2_bytes, _text_bytes), (_piece_letters, _text_letters))
    for reading, units in readings:
        atoms = _read(pieces, reading)
        wanted = units(text)
        if [atom for atom, _ in atoms] == [atom for atom, _ in wanted]:
            return _exact(atoms, wanted, len(pieces))
    unknown = {tokenizer.unk_token} - {None}
    return _by_words(text, pieces, tokenizer, unknown) or _by_runs(text, pieces, unknown)


def _text_bytes(text: str) -> Atoms:
    return [(b, i) for i, char in enumerate(text) for b in char.encode() if b not in ASCII_SPACE]


def _text_letters(text: str) -> Atoms:
    return [(letter, i) for i, char in enumerate(text) for letter in _letters(char)]


def _letters(text: str) -> str:
    """Canonical letters; where nothing is left of a visible character, as of an accent alone, that itself."""
    return _canonical(text) or "".join(text.split())


def _canonical(text: str) -> str:
    """Case, accents, compatibility forms, whitespace, control and format characters set aside."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(c for c in folded if not c.isspace() and unicodedata.category(c)[0] not in "MC")


def _latin_bytes(piece: str) -> bytes | None:
    """A piece of one character below U+0100 is that byte; a longer one is a special token, spelled out."""
    if len(piece) > 1:
        return piece.encode()
    return bytes([ord(piece)]) if piece and ord(piece) < 256 else None


def _gpt2_bytes(piece: str) -> bytes | None:
    values = [BYTE_OF_NAME.get(char) for char in piece]
    return piece.encode() if None in values else bytes(value for value in values if value is not None)


def _piece_letters(piece: str) -> str:
    return _letters(MARKERS.sub("", piece) or piece)


def _read(pieces: Sequence[str], reading: Reading) -> Atoms:
    """The atoms of all pieces; one that cannot be read is an atom that equals no other."""
    atoms: Atoms = []
    for index, piece in enumerate(pieces):
        units = reading(piece)
        readable: Sequence[object] = [object()] if units is None else units
        atoms += [(unit, index) for unit in readable if unit not in tuple(ASCII_SPACE)]
    return atoms


def _exact(atoms: Atoms, wanted: Atoms, count: int) -> list[Span]:
    return _spans(
        ((piece, char, char + 1) for (_, piece), (_, char) in zip(atoms, wanted, strict=True)), count
    )


def _spans(claims: Iterator[tuple[int, int, int]], count: int) -> list[Span]:
    """One span a piece from its claims ``(piece, start, end)``; a piece without any gets an empty span."""
    found: dict[int, Span] = {}
    for piece, start, end in claims:
        first, last = found.get(piece, (start, end))
        found[piece] = (min(first, start), max(last, end))
    spans: list[Span] = []
    position = 0
    for piece in range(count):
        spans.append(found.get(piece, (position, position)))
        position = spans[-1][1]
    return spans


def _by_pattern(text: str, pieces: Sequence[str], unknown: set[str]) -> list[Span] | None:
    """The pieces of a short text one after the other, each unknown one with as few letters as can be, at least one."""
    wanted = _text_letters(text)
    if (
        not wanted
        or len(wanted) > LONGEST_PATTERN
        or sum(piece in unknown for piece in pieces) > MOST_UNKNOWN
    ):
        return None
    parts = [".+?" if piece in unknown else re.escape(_piece_letters(piece)) for piece in pieces]
    letters = "".join(str(letter) for letter, _ in wanted)
    match = re.fullmatch("".join(f"({part})" for part in parts), letters, re.DOTALL)
    if match is None or any(start == end for start, end in match.regs[1:]):
        return None
    return [(wanted[start][1], wanted[end - 1][1] + 1) for start, end in match.regs[1:]]


def _by_words(
    text: str, pieces: Sequence[str], tokenizer: PreTrainedTokenizerBase, unknown: set[str]
) -> list[Span] | None:
    """Align each word by itself, if the words' own pieces are together the pieces of the text."""
    for pattern in (r"\S+", r"\s*\S+"):
        words = list(re.finditer(pattern, text))
        parts = [tokenizer.tokenize(word[0]) for word in words]
        if [piece for part in parts for piece in part] == list(pieces):
            return [
                (word.start() + start, word.start() + end)
                for word, part in zip(words, parts, strict=True)
                for start, end in _by_runs(word[0], part, unknown)
            ]
    return None


def _by_runs(text: str, pieces: Sequence[str], unknown: set[str]) -> list[Span]:
    """Match the longest equal runs of letters; what lies between is shared by the pieces between."""
    if found := _by_pattern(text, pieces, unknown):
        return found
    atoms = _read(pieces, lambda piece: None if piece in unknown else _piece_letters(piece))
    wanted = _text_letters(text)
    matcher = SequenceMatcher(None, [a for a, _ in wanted], [a for a, _ in atoms], autojunk=False)
    return _spans(_claims(matcher, wanted, atoms), len(pieces))


def _claims(matcher: SequenceMatcher[object], wanted: Atoms, atoms: Atoms) -> Iterator[tuple[int, int, int]]:
    for tag, from_text, to_text, from_piece, to_piece in matcher.get_opcodes():
        if tag in ("delete", "insert"):
            continue
        width, number = to_text - from_text, to_piece - from_piece
        for k in range(number):
            # With equal runs this is one atom each; otherwise an even share, at least one atom.
            first = from_text + k * width // number
            last = max(first, from_text + (k + 1) * width // number - 1)
            yield atoms[from_piece + k][1], wanted[first][1], wanted[last][1] + 1
