"""Characters that are no text: what a terminal would obey, and halves of characters; text made safe to print."""

from __future__ import annotations

import re
import unicodedata

from workbench.errors import DataError

__all__ = ["check_text", "display_width", "lone_surrogate", "neutral", "printable", "without_surrogate_pairs"]

# Control characters (C0, DEL, C1), line and paragraph separators, marks, embeddings, overrides and isolates
# of direction, other invisible format characters, tags, and surrogates. The two joiners stay: Persian words
# and emoji are written with them.
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def neutral(text: str, keep: str = "") -> str:
    r"""``text`` with every character that a terminal obeys written as ``\uXXXX``, but for those in ``keep``.

    Inside a JSON string the escape stands for the same character, so JSON stays the same data.
    """
    return _OBEYED.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def without_surrogate_pairs(text: str) -> str:
    r"""``text`` with each pair of surrogates (``\ud83d\ude00``) joined to the character that it stands for.

    Raises ``ValueError`` that names the first surrogate without a partner.
    """
    if not _SURROGATE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    lone = lone_surrogate(joined)
    if lone is not None:
        raise ValueError(f"the lone surrogate {lone}; write the character itself or the full pair")
    return joined


def lone_surrogate(text: str) -> str | None:
    r"""The first surrogate in ``text`` as ``\udXXX``, or ``None``: it is half a character."""
    found = _SURROGATE.search(text)
    return None if found is None else _escape(found[0])


def check_text(text: str, where: str = "the text") -> str:
    """``text`` unchanged; raises :class:`~workbench.errors.DataError` that begins with ``where`` unless it is Unicode.

    A lone surrogate is half of a UTF-16 pair: no UTF-8 exists for it, so no tokenizer can read it.
    """
    if not isinstance(text, str):
        raise DataError(f"{where} must be a str, got {type(text).__name__}: {text!r:.60}")
    found = _SURROGATE.search(text)
    if found is not None:
        raise DataError(
            f"{where} has the lone surrogate {_escape(found[0])} at character {found.start() + 1}, which is not text; "
            "write the character itself or the full pair"
        )
    return text


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
