"""Texts, pairs and aligned sentences as padded tensors that a model can be called with."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from torch import Tensor

from workbench.errors import DataError, WorkbenchWarning
from workbench.models import LoadedModel
from workbench.models.batching import HeadRow, padded
from workbench.terminal import counted
from workbench.text import Alignment, align
from workbench.trace.padding import together

__all__ = ["Encoded", "Text", "batches_of", "cut_to", "encode_all", "inputs_of", "say_cut"]

Text: TypeAlias = str | tuple[str, str] | Alignment


@dataclass(frozen=True)
class Encoded:
    """One text as the model reads it, and how many of its tokens did not fit."""

    alignment: Alignment
    segment_ids: tuple[int, ...]  # 0 or 1: which text of a pair; specials belong to the text before them
    truncated: int = 0

    @property
    def row(self) -> HeadRow:
        """Its ids and segments, as batches are made of them."""
        return HeadRow(self.alignment.ids, self.segment_ids)


def encode_all(model: LoadedModel, texts: Sequence[Text], max_length: int | None = None) -> list[Encoded]:
    """Encode each text; one longer than the model (or ``max_length``) is truncated, and says by how much.

    Raises :class:`DataError` if there is no text, or one has no tokens.
    """
    if isinstance(texts, str):
        raise DataError(f"texts must be a list, got one str {texts[:40]!r}; write [text]")
    if not texts:
        raise DataError("no texts: give at least one")
    limit = min(max_length or model.max_length, model.max_length)
    return [_encode(model, text, limit, index) for index, text in enumerate(texts)]


def say_cut(encoded: Sequence[Encoded], model: LoadedModel) -> None:
    """Warn if texts were longer than the model."""
    truncated = [row.truncated for row in encoded if row.truncated]
    if truncated:
        warnings.warn(
            f"{len(truncated)} of {counted(len(encoded), 'text')} longer than {model.name} reads or max_length allows: "
            f"{counted(sum(truncated), 'token')} truncated",
            WorkbenchWarning,
            stacklevel=3,
        )


def _encode(model: LoadedModel, text: Text, limit: int, index: int) -> Encoded:
    if isinstance(text, str) and not text.strip():
        raise DataError(f"text {index} is empty; give at least one word")
    if isinstance(text, Alignment):
        encoded = Encoded(text, (0,) * len(text))
    elif isinstance(text, str):
        alignment = model.read(text)
        encoded = Encoded(alignment, (0,) * len(alignment))
    elif model.prompt.chat:
        raise DataError("a chat message is one text, got a pair; leave out --chat, or give one text")
    else:
        encoded = _pair(model.tokenizer, *text)
    if not len(encoded.alignment):
        raise DataError(f"text {index} has no tokens: the tokenizer drops all of its characters")
    return cut_to(encoded, limit)


def _pair(tokenizer: Any, first: str, second: str) -> Encoded:
    """Both texts as the tokenizer joins a pair; their alignment is over the two with a space between."""
    parts = [align(text, tokenizer, add_special_tokens=False) for text in (first, second)]
    before, between, after, types = _pair_frame(tokenizer)
    shift = len(first) + 1
    joined = f"{first} {second}"
    names = tokenizer.convert_ids_to_tokens
    word_count = len(parts[0].words)

    def moved(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple((start + shift, end + shift) for start, end in spans)

    second_words = tuple(None if w is None else w + word_count for w in parts[1].word_ids)
    frame = (len(before), len(parts[0]), len(between), len(parts[1]), len(after))
    alignment = Alignment(
        text=joined,
        tokens=(*names(before), *parts[0].tokens, *names(between), *parts[1].tokens, *names(after)),
        ids=(*before, *parts[0].ids, *between, *parts[1].ids, *after),
        offsets=(
            *((0, 0),) * frame[0],
            *parts[0].offsets,
            *((shift, shift),) * frame[2],
            *moved(parts[1].offsets),
            *((len(joined), len(joined)),) * frame[4],
        ),
        words=(*parts[0].words, *moved(parts[1].words)),
        word_ids=(
            *(None,) * frame[0],
            *parts[0].word_ids,
            *(None,) * frame[2],
            *second_words,
            *(None,) * frame[4],
        ),
    )
    return Encoded(
        alignment, tuple(kind for kind, count in zip(types, frame, strict=True) for _ in range(count))
    )


def _pair_frame(tokenizer: Any) -> tuple[list[int], list[int], list[int], tuple[int, ...]]:
    """Special ids before, between and after the two texts, and the segment of each of the five parts."""
    probe = tokenizer("a", add_special_tokens=False)["input_ids"]
    ids, size = list(tokenizer("a", "a")["input_ids"]), len(probe)
    starts = [i for i in range(len(ids)) if ids[i : i + size] == probe]
    if len(starts) < 2:
        raise DataError("this tokenizer does not join pairs of texts; give one text")
    first, second = starts[0], starts[-1]
    return ids[:first], ids[first + size : second], ids[second + size :], (0, 0, 0, 1, 1)


def cut_to(encoded: Encoded, limit: int) -> Encoded:
    """Keep at most ``limit`` tokens: the end goes, but the special tokens that close the text stay."""
    old = encoded.alignment
    surplus = len(old) - limit
    if surplus <= 0:
        return encoded
    closing = next(n for n in range(len(old) + 1) if n == len(old) or old.word_ids[-1 - n] is not None)
    closing = min(closing, limit)
    keep = [*range(limit - closing), *range(len(old) - closing, len(old))]
    alignment = replace(
        old,
        tokens=tuple(old.tokens[i] for i in keep),
        ids=tuple(old.ids[i] for i in keep),
        offsets=tuple(old.offsets[i] for i in keep),
        word_ids=tuple(old.word_ids[i] for i in keep),
    )
    return Encoded(alignment, tuple(encoded.segment_ids[i] for i in keep), surplus)


def batches_of(model: LoadedModel, encoded: Sequence[Encoded], size: int) -> Iterator[list[int]]:
    """Positions in ``encoded`` in batches of ``size``, texts of like length together, the longest first.

    Of one length, where padding changes what the model gives.
    """
    order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i].alignment))
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        for group in together(model.model, [len(encoded[i].alignment) for i in batch]):
            yield [batch[place] for place in group]


def inputs_of(model: LoadedModel, batch: Sequence[Encoded]) -> dict[str, Tensor]:
    """Tensors to call the model with, padded on the right with mask 0."""
    return padded(model, [row.row for row in batch])
