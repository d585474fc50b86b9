"""Several texts as one padded array of ids, with a stated policy on special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Int

from workbench.choices import member
from workbench.errors import ConfigError, DataError
from workbench.text.alignment import Alignment, align
from workbench.text.words import checked

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["EncodedBatch", "SpecialTokens", "encode_batch"]


class SpecialTokens(StrEnum):
    """Which special tokens each text gets."""

    MODEL = "model"  # what the tokenizer adds by itself, each once even if the text spells it out already
    BOS = "bos"  # exactly one beginning-of-sequence token in front, and nothing else
    NONE = "none"  # nothing is added


@dataclass(frozen=True)
class EncodedBatch:
    """Ids and mask of several texts, padded to the longest, and each text's alignment without padding."""

    input_ids: Int[np.ndarray, "batch token"]
    attention_mask: Int[np.ndarray, "batch token"]
    alignments: tuple[Alignment, ...]
    padding_side: Literal["left", "right"]

    def columns(self, row: int) -> slice:
        """The columns of ``row`` that are not padding: ``input_ids[row, columns(row)]`` are the row's ids."""
        length = len(self.alignments[row])
        width = int(self.input_ids.shape[1])
        return slice(width - length, width) if self.padding_side == "left" else slice(0, length)


def encode_batch(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    *,
    special_tokens: SpecialTokens | str = SpecialTokens.MODEL,
    padding_side: Literal["left", "right"] | None = None,
    max_length: int | None = None,
    parse_special: bool = True,
    punctuation: bool = False,
) -> EncodedBatch:
    """Encode ``texts``, never truncating, and pad them to the longest on ``padding_side``.

    Args:
        texts: one or more texts.
        tokenizer: a transformers tokenizer, fast or slow.
        special_tokens: the policy; see :class:`SpecialTokens`.
        padding_side: the tokenizer's own side by default. Padded positions have mask 0.
        max_length: number of tokens, special ones included, above which a text is refused.
        parse_special: whether special tokens spelled out in a text become those tokens.
        punctuation: whether punctuation marks are words of their own.

    Raises:
        ConfigError: the policy or the side is unknown, or the tokenizer has no BOS token.
        DataError: there is no text, one is not Unicode text, or one is longer than ``max_length``.
    """
    policy, side = _policy(special_tokens, tokenizer), _side(padding_side or tokenizer.padding_side)
    rows = [
        _with_policy(text, tokenizer, policy, parse_special=parse_special, punctuation=punctuation)
        for text in checked(texts)
    ]
    if not rows:
        raise DataError("no texts to encode: give at least one")
    for index, row in enumerate(rows):
        if max_length is not None and len(row) > max_length:
            raise DataError(
                f"text {index} has {len(row)} tokens; at most {max_length} are allowed: shorten it"
            )
    width = max(len(row) for row in rows)
    ids = np.full((len(rows), width), _padding_id(tokenizer), dtype=np.int64)  # (batch, token)
    batch = EncodedBatch(ids, np.zeros_like(ids), tuple(rows), side)
    for index, row in enumerate(rows):
        ids[index, batch.columns(index)] = row.ids
        batch.attention_mask[index, batch.columns(index)] = 1
    return batch


def _policy(special_tokens: str, tokenizer: PreTrainedTokenizerBase) -> SpecialTokens:
    policy = member(SpecialTokens, special_tokens, "special_tokens")
    if policy is SpecialTokens.BOS and tokenizer.bos_token_id is None:
        raise ConfigError(
            "special_tokens is 'bos', but this tokenizer has no BOS token; use 'model' or 'none'"
        )
    return policy


def _side(side: str) -> Literal["left", "right"]:
    if side == "left":
        return "left"
    if side == "right":
        return "right"
    raise ConfigError(f"padding_side is {side!r}; allowed: left, right")


def _padding_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The padding id; a model without one never looks at padded positions, so any id serves."""
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if isinstance(token_id, int):
            return token_id
    return 0


def _with_policy(
    text: str,
    tokenizer: PreTrainedTokenizerBase,
    policy: SpecialTokens,
    *,
    parse_special: bool,
    punctuation: bool,
) -> Alignment:
    plain = align(
        text, tokenizer, add_special_tokens=False, parse_special=parse_special, punctuation=punctuation
    )
    before: list[int] = []
    after: list[int] = []
    if policy is SpecialTokens.BOS:
        before = [tokenizer.bos_token_id]
    elif policy is SpecialTokens.MODEL:
        before, after = _added_by_model(tokenizer)
    ids = list(plain.ids)
    before = [] if before and ids[: len(before)] == before else before
    after = [] if after and ids[-len(after) :] == after else after
    return _surrounded(plain, before, after, tokenizer)


def _added_by_model(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Ids that the tokenizer puts before and after a text."""
    probe = list(tokenizer("a", add_special_tokens=False, truncation=False, padding=False)["input_ids"])
    whole = list(tokenizer("a", add_special_tokens=True, truncation=False, padding=False)["input_ids"])
    start = next(i for i in range(len(whole)) if whole[i : i + len(probe)] == probe)
    return whole[:start], whole[start + len(probe) :]


def _surrounded(
    plain: Alignment, before: list[int], after: list[int], tokenizer: PreTrainedTokenizerBase
) -> Alignment:
    names = tokenizer.convert_ids_to_tokens
    end = len(plain.text)
    return replace(
        plain,
        tokens=(*names(before), *plain.tokens, *names(after)),
        ids=(*before, *plain.ids, *after),
        offsets=((0, 0),) * len(before) + plain.offsets + ((end, end),) * len(after),
        word_ids=(None,) * len(before) + plain.word_ids + (None,) * len(after),
    )
