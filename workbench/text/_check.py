"""Checks that every entry point makes on text before a tokenizer sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.errors import DataError

__all__ = ["check_text", "checked"]


def check_text(text: str, *, where: str = "the text") -> str:
    """Return ``text`` unchanged; raises :class:`~workbench.errors.DataError` unless it is encodable Unicode.

    A lone surrogate is half of a UTF-16 pair: no UTF-8 exists for it, so no tokenizer can read it.
    """
    if not isinstance(text, str):
        raise DataError(f"{where} must be a str, got {type(text).__name__}: {text!r:.60}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where} has a lone surrogate U+{ord(text[error.start]):04X} at character {error.start}, "
            "which is not text; read the file as UTF-8 with errors='replace', or remove the character"
        ) from None
    return text


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Yield each of ``texts``, checked; the error names the index of the bad one."""
    if isinstance(texts, str):
        raise DataError(f"texts must be several strings, got one str {texts!r:.60}; write [text]")
    for index, text in enumerate(texts):
        yield check_text(text, where=f"text {index}")
