"""Conversations in tables: lists of messages (OpenAI's, ShareGPT's), and columns of a prompt and a reply (Alpaca's)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.data.dialogues import messages_of
from workbench.data.rows import Turn
from workbench.data.tables import Row
from workbench.errors import DataError

__all__ = ["CHAT_COLUMNS", "chat_columns", "prompt_and_reply", "read_messages"]

_ROLES = {
    "system": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
}

CHAT_COLUMNS: tuple[tuple[str, str | None, str], ...] = (
    ("messages", None, "messages"),
    ("conversations", None, "conversations"),
    ("prompt", None, "response"),
    ("instruction", "input", "output"),
)
"""Columns of the text, what stands below it, and the reply; one column is that of a list of messages."""


def chat_columns(row: Row, own: str | None = None) -> tuple[str, str | None, str]:
    """Those of :data:`CHAT_COLUMNS` that ``row`` has, or its column ``own`` where that is a list of messages.

    Of a row that has none of them, a prompt's and a response's.
    """
    if own is not None and isinstance(row.get(own), list):
        return own, None, own
    for text, pair, label in CHAT_COLUMNS:
        if text in row and label in row:
            return text, pair if pair in row else None, label
    return "prompt", None, "response"


def prompt_and_reply(text: str, below: str, reply: str) -> tuple[Turn, ...]:
    """One turn each; ``below`` (Alpaca's input) follows the text after an empty line, where there is any."""
    return ("user", f"{text}\n\n{below}" if below.strip() else text), ("assistant", reply)


def read_messages(value: Any, place: str) -> tuple[Turn, ...]:
    """A conversation up to its last reply: messages with role and content, or with from and value as in ShareGPT.

    A text is read as JSON (a cell of a CSV file). A system message, if any, comes first; replies follow what a user
    says. Raises :class:`~workbench.errors.DataError` naming ``place`` for anything else, and where no reply is.

    Example:
        ```python
        from workbench.data.chats import read_messages

        turns = [{"from": "human", "value": "Who wrote Emma?"}, {"from": "gpt", "value": "Jane Austen."}]
        print(read_messages(turns, "row 1"))
        ```
    """
    found = messages_of(_as_published(value), place, "the conversation")
    if found is None:
        raise DataError(f"{place}: {value!r:.60} is no list of messages, each with role and content")
    turns = [_turn(turn, f"{place}, message {number}") for number, turn in enumerate(found, 1)]
    while turns and turns[-1][0] != "assistant":
        turns.pop()  # nobody answers what stands there
    if not turns:
        raise DataError(f"{place}: the conversation has no reply of the assistant; leave it out")
    _check_order(turns, place)
    return tuple(turns)


def _as_published(value: Any) -> Any:
    """ShareGPT's messages with role and content, and contents in parts of type "text" as one; the rest as it is."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if not isinstance(value, list) or not all(isinstance(turn, Mapping) for turn in value):
        return value
    names = {"from": "role", "value": "content"}
    return [
        {(names.get(key, key) if "from" in turn else key): _one_text(part) for key, part in turn.items()}
        for turn in value
    ]


def _one_text(value: Any) -> Any:
    if isinstance(value, list) and all(
        isinstance(part, Mapping) and part.get("type") == "text" for part in value
    ):
        return "".join(str(part.get("text", "")) for part in value)
    return value


def _turn(turn: Turn, place: str) -> Turn:
    role, content = turn
    if role not in _ROLES:
        raise DataError(f"{place} is of {role!r:.40}; allowed: {', '.join(_ROLES)}")
    if not content.strip():
        raise DataError(f"{place}: its content is {content!r:.40}; allowed: a text that is not empty")
    return _ROLES[role], content


def _check_order(turns: Sequence[Turn], place: str) -> None:
    before = None
    for number, (role, _) in enumerate(turns, 1):
        if role == "system" and number > 1:
            raise DataError(f"{place}, message {number}: a system message stands first, or nowhere")
        if role == "assistant" and before != "user":
            raise DataError(f"{place}, message {number}: a reply without a user's message before it")
        before = role
