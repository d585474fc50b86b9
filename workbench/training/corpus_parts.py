"""A corpus and the end of it that is held out where no other corpus was named to validate on.

The text is divided, not its tokens: so a tokenizer can be trained before the division, on the part that is trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from workbench.data.corpus_stream import CorpusPiece, split_sentences, stream_corpus

__all__ = ["HELD_OUT", "TRAIN", "WHOLE", "CorpusPart", "held_out_start"]

WHOLE, TRAIN, HELD_OUT = "", ", training part", ", held-out part"
FEWEST = 1024  # characters that are held out of a text of ten times as many or more


@dataclass(frozen=True)
class CorpusPart:
    """A corpus to stream, whole, or one of the parts before and from :func:`held_out_start`."""

    path: str
    sha256: str
    column: str = "text"
    part: str = WHOLE

    def pieces(self) -> Iterator[CorpusPiece]:
        """The part's text; raises :class:`~workbench.errors.DataError` as :func:`stream_corpus` does."""
        pieces = stream_corpus(self.path, self.column)
        if self.part == WHOLE:
            yield from pieces
            return
        border, read = held_out_start(self.path, self.sha256, self.column), 0
        for piece in pieces:
            place = _place(piece.text, border - read)
            read += len(piece.text)
            if self.part == TRAIN and place > 0:
                yield CorpusPiece(piece.text[:place], piece.opens_document)
            if self.part == HELD_OUT and place < len(piece.text):
                yield CorpusPiece(piece.text[place:], piece.opens_document and place == 0)


def _place(text: str, border: int) -> int:
    """Where ``text`` is divided: at the first sentence from ``border`` on, or there if none starts after it."""
    if not 0 < border < len(text):
        return 0 if border <= 0 else len(text)
    starts = accumulate(map(len, split_sentences(text)[:-1]))
    return next((start for start in starts if start >= border), border)


@lru_cache(maxsize=8)
def held_out_start(path: str, sha256: str, column: str) -> int:
    """The character from which on a corpus is held out: its last hundredth, or a little more of a short one.

    ``sha256`` is that of the corpus, by which the count is kept.
    """
    characters = sum(len(piece.text) for piece in stream_corpus(path, column))
    return characters - max(characters // 100, min(FEWEST, characters // 10))
