"""Texts as a tokenizer splits them, with the word of each token: the tokenizer's own words, or aligned ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import ModelError
from workbench.text.alignment import align
from workbench.text.words import Span

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Pieces", "require_fast", "split_texts"]


@dataclass(frozen=True)
class Pieces:
    """The tokens of one text: ids, characters that each stands for, its word, and the segment it is of.

    ``words`` numbers the words that the tokenizer itself splits a text into before it splits these (punctuation
    apart, with most); a slow tokenizer, which does not give them, has words and marks of punctuation.
    ``None`` marks tokens that the tokenizer adds.
    """

    ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    words: tuple[int | None, ...]
    segments: tuple[int, ...]

    def within(self, start: int, end: int) -> list[int]:
        """Places of the tokens that overlap the characters from ``start`` to ``end``."""
        return [
            place
            for place, ((first, last), word) in enumerate(zip(self.offsets, self.words, strict=True))
            if word is not None and first < end and last > start
        ]


def require_fast(tokenizer: PreTrainedTokenizerBase, *, verb: str) -> None:
    """Raise :class:`~workbench.errors.ModelError` for a slow tokenizer, which cannot read long texts in windows."""
    if not tokenizer.is_fast:
        raise ModelError(
            f"{verb} needs a fast tokenizer (tokenizer.json); {type(tokenizer).__name__} is a slow one: "
            "use a model that has tokenizer.json"
        )


def split_texts(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, *, add_special_tokens: bool = True
) -> list[Pieces]:
    """Pieces of each text, never truncated."""
    if not tokenizer.is_fast:
        return [_slow(text, tokenizer, add_special_tokens) for text in texts]
    if not texts:
        return []
    encoded = tokenizer(
        list(texts), add_special_tokens=add_special_tokens, return_offsets_mapping=True, verbose=False
    )
    return [_fast(encoded, number) for number in range(len(texts))]


def _fast(encoded: Any, number: int) -> Pieces:
    ids, segments = encoded["input_ids"][number], encoded.get("token_type_ids")
    return Pieces(
        ids=tuple(ids),
        offsets=tuple((int(start), int(end)) for start, end in encoded["offset_mapping"][number]),
        words=tuple(encoded.word_ids(number)),
        segments=(0,) * len(ids) if segments is None else tuple(segments[number]),
    )


def _slow(text: str, tokenizer: PreTrainedTokenizerBase, add_special_tokens: bool) -> Pieces:
    aligned = align(text, tokenizer, add_special_tokens=add_special_tokens, punctuation=True)
    return Pieces(aligned.ids, aligned.offsets, aligned.word_ids, (0,) * len(aligned))
