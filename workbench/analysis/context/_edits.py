"""Changes of a context beyond a distance from the word that is predicted."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import numpy as np

from workbench.choices import as_members
from workbench.data import DataIdentity, content_hash, read_lambada, split_target
from workbench.data.corpus import read_corpus
from workbench.data.grammar import lexicon
from workbench.errors import DataError
from workbench.text import split_words

__all__ = [
    "FULL",
    "Condition",
    "ContextItem",
    "Operation",
    "WordClass",
    "conditions_of",
    "edited",
    "is_of",
    "items_of_file",
    "items_of_lambada",
    "items_of_text",
    "pieces_of",
    "word_pool",
]


class WordClass(StrEnum):
    """Which words of the context are changed."""

    ALL = "all"
    CONTENT = "content"
    FUNCTION = "function"


def pieces_of(text: str) -> list[str]:
    """The words of ``text``, each with the white space behind it; together they are the text from its first word."""
    starts = [start for start, _ in split_words(text)]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def is_of(piece: str, words: WordClass) -> bool:
    """Whether a word belongs to a class; marks without a letter or digit belong to ``ALL`` alone."""
    if words is WordClass.ALL:
        return True
    bare = piece.lower().replace("’", "'").strip().strip(".,;:!?\"'`()[]{}“”‘*-–—…")
    if not any(char.isalnum() for char in bare):
        return False
    return (bare in _function_words()) is (words is WordClass.FUNCTION)


@cache
def _function_words() -> frozenset[str]:
    return frozenset(map(str, lexicon("function_word")))


class Operation(StrEnum):
    """What happens to the chosen words."""

    KEEP = "keep"  # only the nearest words stay; the same as to drop all words beyond
    DROP = "drop"
    SHUFFLE = "shuffle"  # among themselves
    REPLACE = "replace"  # by words of the same class from other contexts of the data


@dataclass(frozen=True)
class Condition:
    """A change of words farther than ``distance`` words from the target (the nearest word is at distance 1).

    With ``window`` only the ``window`` words next beyond the distance are changed, not all that come before.
    ``operation`` ``None`` is the full context.
    """

    operation: Operation | None
    words: WordClass = WordClass.ALL
    distance: int = 0
    window: int | None = None

    def __post_init__(self) -> None:
        as_members(self)

    @property
    def name(self) -> str:
        """The curve that the condition lies on: "keep", "shuffle all", …"""
        if self.operation is None:
            return "full context"
        if self.operation is Operation.KEEP and self.window is not None:
            return f"drop all (window of {self.window})"
        words = "" if self.operation is Operation.KEEP else f" {self.words}"
        return f"{self.operation}{words}" + ("" if self.window is None else f" (window of {self.window})")

    @property
    def key(self) -> str:
        """Part of the id of an example."""
        return "full" if self.operation is None else f"{self.name}@{self.distance}"


FULL = Condition(None)


@dataclass(frozen=True)
class ContextItem:
    """A word to predict, with the space before it, and what stands before that."""

    id: str
    context: str
    target: str


def conditions_of(
    operations: Sequence[str], distances: Sequence[int], window: int | None = None
) -> list[Condition]:
    """The full context, and every operation at every distance.

    An operation is written ``keep``, or ``drop``, ``shuffle`` or ``replace`` and the class of words: ``drop
    content``; without a class it is all. Dropping all words beyond a distance is keeping the nearest. Raises
    :class:`~workbench.errors.DataError` for unknown names, no or negative distances.
    """
    if not distances or any(d < 0 for d in distances):
        raise DataError(
            f"distances {list(distances)} are not allowed; give numbers of words from 0 up: 1,5,20"
        )
    if window is not None and window < 1:
        raise DataError(f"window {window} is not allowed; give 1 or more words")
    found = [FULL]
    for operation, words in map(_operation, operations):
        found += [Condition(operation, words, distance, window) for distance in distances]
    return list(dict.fromkeys(found))


def _operation(text: str) -> tuple[Operation, WordClass]:
    name, _, words = text.strip().partition(" ")
    words = words.strip() or WordClass.ALL.value
    if (
        name not in set(Operation)
        or words not in set(WordClass)
        or (name == Operation.KEEP and words != "all")
    ):
        raise DataError(
            f"unknown operation {text!r}; allowed: keep, or {', '.join(list(Operation)[1:])} followed by "
            f"{', '.join(WordClass)}, such as drop content"
        )
    if (name, words) == (Operation.DROP, WordClass.ALL):
        return Operation.KEEP, WordClass.ALL
    return Operation(name), WordClass(words)


def word_pool(items: Sequence[ContextItem]) -> dict[WordClass, list[str]]:
    """Words that may replace others: those of all contexts, as often as they occur, by class."""
    words = [piece.strip() for item in items for piece in pieces_of(item.context)]
    return {chosen: [word for word in words if is_of(word, chosen)] for chosen in WordClass}


def edited(
    item: ContextItem, condition: Condition, pool: dict[WordClass, list[str]], seed: int
) -> tuple[str, int]:
    """The context under a condition, and how many of its words were changed.

    Random choices depend on the seed, the item and the condition alone.
    """
    pieces = pieces_of(item.context)
    if condition.operation is None:
        return item.context, 0
    last = max(len(pieces) - condition.distance, 0)  # words before this place are farther than the distance
    first = 0 if condition.window is None else max(last - condition.window, 0)
    chosen = [i for i in range(first, last) if is_of(pieces[i], condition.words)]
    if not chosen:
        return item.context, 0
    random = np.random.default_rng(zlib.crc32(f"{seed}|{item.id}|{condition.key}".encode()))
    if condition.operation in (Operation.KEEP, Operation.DROP):
        gone = set(chosen)
        kept = "".join(p for i, p in enumerate(pieces) if i not in gone)
        end = item.context[len(item.context.rstrip()) :]  # the target brings its own space
        return kept.rstrip() + end, len(gone)
    words = _others(pieces, chosen, condition, pool, random)
    changed = 0
    for place, word in zip(chosen, words, strict=True):
        changed += pieces[place].strip() != word
        pieces[place] = word + pieces[place][len(pieces[place].rstrip()) :]
    return "".join(pieces), changed


def _others(
    pieces: Sequence[str],
    chosen: Sequence[int],
    condition: Condition,
    pool: dict[WordClass, list[str]],
    random: np.random.Generator,
) -> list[str]:
    if condition.operation is Operation.SHUFFLE:
        return [pieces[chosen[i]].strip() for i in random.permutation(len(chosen))]
    source = pool[condition.words]
    return [source[int(i)] for i in random.integers(len(source), size=len(chosen))]


def items_of_lambada(
    variant: str, data_dir: Path | str | None = None, limit: int | None = None
) -> tuple[list[ContextItem], DataIdentity]:
    """The last words of a LAMBADA variant's first ``limit`` passages, and which data they are."""
    data = read_lambada(variant, data_dir)
    return [ContextItem(p.id, *split_target(p.text, p.id)) for p in data.head(_checked(limit))], data.identity


def items_of_text(
    text: str, name: str = "text", count: int | None = 100, longest: int = 200, seed: int = 0
) -> list[ContextItem]:
    """``count`` content words of a text, drawn by ``seed``, each with up to ``longest`` words before it.

    Words that have at least half of ``longest`` (or of the text) before them are drawn from. Raises
    :class:`~workbench.errors.DataError` for a text with fewer than two words to predict.
    """
    pieces = pieces_of(text)
    least = max(1, min(longest, len(pieces)) // 2)
    places = [i for i in range(least, len(pieces)) if is_of(pieces[i], WordClass.CONTENT)]
    if not places:
        raise DataError(
            f"{name} has {len(pieces)} words and no content word with {least} words before it to predict; give a "
            "longer text"
        )
    drawn = np.random.default_rng(seed).permutation(len(places))[: _checked(count)]
    return [_item(pieces, places[i], name, longest) for i in sorted(int(i) for i in drawn)]


def _item(pieces: Sequence[str], place: int, name: str, longest: int) -> ContextItem:
    context = "".join(pieces[max(place - longest, 0) : place]).rstrip()
    return ContextItem(f"{name}-{place:06d}", context, f" {pieces[place].strip()}")


def items_of_file(
    path: Path | str, count: int | None = 100, longest: int = 200, seed: int = 0
) -> tuple[list[ContextItem], DataIdentity]:
    """:func:`items_of_text` of all lines of a UTF-8 text file, joined, and which data it is."""
    corpus = read_corpus(path)
    if corpus.trees:
        raise DataError(f"{path} is a treebank; give a text file")
    text = "\n".join(corpus.lines)
    return items_of_text(text, corpus.identity.name, count, longest, seed), DataIdentity(
        corpus.identity.name, corpus.identity.source, content_hash([text]), 1
    )


def _checked(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise DataError(f"limit is {limit}; allowed: 1 or more, or leave it out for all")
    return limit
