"""Words to predict: those of LAMBADA, or some of any text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from workbench.analysis.context._edits import ContextItem
from workbench.analysis.context._words import WordClass, is_of, pieces_of
from workbench.data import DataIdentity, content_hash, read_lambada, split_target
from workbench.data.corpus import read_corpus
from workbench.errors import DataError

__all__ = ["items_of_file", "items_of_lambada", "items_of_text"]


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
    return items_of_text(text, Path(path).stem, count, longest, seed), DataIdentity(
        corpus.identity.name, corpus.identity.source, content_hash([text]), 1
    )


def _checked(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise DataError(f"limit is {limit}; allowed: 1 or more, or leave it out for all")
    return limit
