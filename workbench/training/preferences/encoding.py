"""Prompts and replies as token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from workbench.data.rows import Preference, RatedReply
from workbench.errors import DataError
from workbench.models.chat import chat_turn
from workbench.terminal import counted
from workbench.text.prompts import turns_text
from workbench.training.preferences.settings import AlignSettings, LongPrompts

__all__ = ["EncodedRow", "Encoder", "Sequences", "too_long"]

Row = TypeVar("Row", Preference, RatedReply)
Sequences = Sequence[tuple[list[int], list[int]]]
"""Token ids of prompts and of their replies."""


@dataclass(frozen=True)
class EncodedRow(Generic[Row]):
    """Token ids of a row's prompt and of its replies: the chosen and the rejected one, or the only one."""

    row: Row
    prompt: list[int]
    replies: tuple[list[int], ...]


@dataclass(frozen=True)
class Encoder:
    """Makes token ids, at most ``length`` of a prompt and a reply.

    Prompt and reply are tokenized together, as in TRL: a reply begins where the ids of prompt and prompt with reply
    differ. A reply ends with the tokenizer's end token, if it has one; in a chat format with what ends a turn there.
    """

    tokenizer: Any
    settings: AlignSettings
    length: int

    def encode(self, rows: Sequence[Row]) -> tuple[list[EncodedRow[Row]], dict[str, int]]:
        """The rows that fit, and how many prompts and replies were shortened, or rows left out.

        Raises :class:`~workbench.errors.DataError` for prompts that leave no room, unless the settings say otherwise.
        """
        every = [self._ids(row) for row in rows]
        long = [one.row.id for one in every if len(one.prompt) >= self.length]
        rule = self.settings.long_prompts
        if long and (rule is LongPrompts.REFUSE or len(long) == len(every)):
            raise DataError(too_long(long, len(every), self.length))
        kept = [one for one in every if rule is not LongPrompts.DROP or len(one.prompt) < self.length]
        short = [self._shortened(one) for one in kept]
        cut = sum(
            len(a) > len(b)
            for one, new in zip(kept, short, strict=True)
            for a, b in zip(one.replies, new.replies, strict=True)
        )
        counts = {"prompts_cut": len(long) - (len(every) - len(kept)), "replies_cut": cut}
        counts["rows_dropped"] = len(every) - len(kept)
        return short, {name: count for name, count in counts.items() if count}

    def _shortened(self, one: EncodedRow[Row]) -> EncodedRow[Row]:
        """A prompt that leaves no room loses its beginning, and then a reply its end."""
        prompt = one.prompt
        if len(prompt) >= self.length:
            room = self.length - max(map(len, one.replies))
            prompt = prompt[-max(1, room) :]
        room = self.length - len(prompt)
        return EncodedRow(one.row, prompt, tuple(ids[:room] for ids in one.replies))

    def _ids(self, row: Row) -> EncodedRow[Row]:
        """All token ids of a row."""
        prompt: str = row.prompt
        replies: list[str] = _replies(row)
        if self.settings.chat:
            turns = row.turns or (("user", row.prompt),)
            prompt = turns_text(self.tokenizer, turns)
            replies = [chat_turn(self.tokenizer, turns, reply) for reply in replies]
        else:
            replies = [self._ended(reply) for reply in replies]
        alone, *both = (self._tokens(prompt + reply) for reply in ("", *replies))
        start = min(_shared(alone, ids) for ids in both)
        return EncodedRow(row, alone[:start], tuple(ids[start:] for ids in both))

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=not self.settings.chat)["input_ids"]
        return ids

    def _ended(self, reply: str) -> str:
        end = self.tokenizer.eos_token or ""
        return reply if end and reply.endswith(end) else reply + end


def _replies(row: Preference | RatedReply) -> list[str]:
    return [row.chosen, row.rejected] if isinstance(row, Preference) else [row.response]


def too_long(ids: Sequence[str], total: int, length: int) -> str:
    """What is wrong with prompts that leave no room for a reply, and what to do."""
    return (
        f"{counted(len(ids), 'prompt')} of {total:,} (first {ids[0]}) leave no room for a reply in {length} tokens; "
        "raise --length, up to the model's own limit, shorten prompts by --long-prompts cut, or leave them out by "
        "--long-prompts drop"
    )


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids both begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))
