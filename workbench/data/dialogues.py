"""Dialogues as data sets have them: lists of messages, or one text with ``Human:`` and ``Assistant:`` (HH-RLHF)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from workbench.characters import check_text
from workbench.data.rows import Turn
from workbench.errors import DataError

__all__ = ["REPLY", "begins", "dialogue_text", "messages_of", "shared_turns", "turns_of"]

REPLY = "\n\nAssistant:"
_NAMES = {"user": "Human", "human": "Human", "assistant": "Assistant"}
_ROLES = {"Human": "user", "Assistant": "assistant"}
_TURN = re.compile(r"\n\n(Human|Assistant):")


def messages_of(value: Any, where: str, name: str) -> tuple[Turn, ...] | None:
    """The messages in a cell: a list of mappings with ``role`` and ``content``, or that as JSON; ``None`` for a text.

    Raises :class:`~workbench.errors.DataError` for anything else.
    """
    if isinstance(value, str):
        value = _json_messages(value)
        if value is None:
            return None
    if not isinstance(value, Sequence) or not value:
        raise DataError(f"{where}: {name} is {value!r:.40}; give a text, or a list of messages")
    return tuple(_turn(message, where, name) for message in value)


def _json_messages(text: str) -> list[Any] | None:
    """The list that a cell spells out, if each of its entries is a message."""
    if text.lstrip().startswith("[{"):
        with suppress(ValueError):
            found = json.loads(text)
            if all(isinstance(one, dict) and {"role", "content"} <= set(one) for one in found):
                return list(found)
    return None


def _turn(message: Any, where: str, name: str) -> Turn:
    role, content = (
        (message.get("role"), message.get("content")) if isinstance(message, Mapping) else (None, None)
    )
    if not isinstance(role, str) or not isinstance(content, str):
        raise DataError(
            f"{where}: {name} has the message {message!r:.60}; each needs the texts 'role' and 'content'"
        )
    return role, check_text(content, where)


def dialogue_text(turns: Sequence[Turn]) -> str:
    """The messages as HH-RLHF writes them, up to where the assistant's next reply begins."""
    written = (f"\n\n{_NAMES.get(role, role.title())}: {content}" for role, content in turns)
    return "".join(written) + REPLY


def turns_of(text: str) -> tuple[Turn, ...]:
    """The messages of a text that is written as HH-RLHF writes dialogues; none for any other text."""
    text = text.removesuffix(REPLY)
    places = list(_TURN.finditer(text))
    if not places or places[0].start() or places[0][1] != "Human":
        return ()
    ends = [place.start() for place in places[1:]] + [len(text)]
    return tuple(
        (_ROLES[place[1]], text[place.end() : end].strip()) for place, end in zip(places, ends, strict=True)
    )


def shared_turns(first: str, second: str) -> str:
    """What both dialogues begin with, up to the last turn of the assistant that they share; empty without one."""
    pairs = zip(first, second, strict=False)
    shared = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    place = shared.rfind(REPLY)
    return shared[: place + len(REPLY)] if place >= 0 else ""


def begins(prompt: str, turns: Sequence[Turn]) -> str:
    """What the user wrote first, which dialogues that go on from one another share; else the prompt."""
    return next((content for role, content in turns if role == "user"), prompt)
