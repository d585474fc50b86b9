"""Tokens, ids and raw offsets of one text, from a fast tokenizer or reconstructed for a slow one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.text._reconstruct import reconstruct_offsets
from workbench.text.words import Span

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["RawEncoding", "raw_encoding"]


@dataclass(frozen=True)
class RawEncoding:
    """What a tokenizer makes of a text; ``offsets`` may miss characters and include leading spaces."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    offsets: tuple[Span, ...]


def raw_encoding(
    text: str, tokenizer: PreTrainedTokenizerBase, *, add_special_tokens: bool, parse_special: bool
) -> RawEncoding:
    """Encode the whole of ``text``: never truncated, never padded, whatever the tokenizer's file asks for."""
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
