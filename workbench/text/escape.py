"""Text from outside, made safe to print on a terminal."""

from __future__ import annotations

import unicodedata

__all__ = ["display_width", "printable"]


def printable(text: str) -> str:
    r"""``text`` with everything that is not a visible character or a plain space written as an escape.

    Control characters (``\x1b``), bidirectional overrides (``\u202e``), line breaks, surrogates and
    unassigned code points can move the cursor or reorder a line. A backslash is doubled, so that the result
    can be read back.
    """
    return "".join(_escaped(char) for char in text)


def display_width(text: str) -> int:
    """Columns that printable ``text`` takes on a terminal: wide characters two, combining marks none."""
    return sum(_columns(char) for char in text)


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    return char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii")


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
