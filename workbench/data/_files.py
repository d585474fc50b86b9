"""Reading text files strictly: what is wrong is told with file, line and position, never skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.errors import DataError

__all__ = ["check_text", "find_file", "read_jsonl", "read_lines", "text_field"]


def find_file(folder: Path | str, *names: str) -> Path:
    """The first of ``names`` that is a file in ``folder``.

    Raises :class:`~workbench.errors.DataError` naming the files looked for and what is there instead.
    """
    folder = Path(folder)
    try:
        for name in names:
            if (folder / name).is_file():
                return folder / name
        if not folder.is_dir():
            problem = "is a file; give the folder it is in" if folder.exists() else "does not exist"
            raise DataError(f"data folder {folder} {problem} (looked for {' or '.join(names)})")
        there = sorted(p.name for p in folder.iterdir())
    except OSError as error:
        raise DataError(f"cannot read {folder}: {error.strerror or error}") from error
    listing = ", ".join(there[:5]) + (", ..." if len(there) > 5 else "") if there else "nothing"
    raise DataError(f"no {' or '.join(names)} in {folder}; it holds {listing}")


def read_lines(path: Path | str, *, blank: bool = False) -> list[str]:
    """Lines of a UTF-8 file, ended by LF or CRLF; a byte order mark at the start is dropped.

    Other Unicode line separators belong to the text. Raises :class:`~workbench.errors.DataError` if the
    file is unreadable, empty, not UTF-8 (naming line and byte), or has an empty line that ``blank`` does not allow.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise DataError(f"{path} is empty")
    lines = [line.removesuffix("\r") for line in _decoded(path, content).removesuffix("\n").split("\n")]
    for number, line in enumerate(lines, 1):
        if not blank and not line.strip():
            raise DataError(f"{path}, line {number} is empty; remove it")
    return lines


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        raise DataError(
            f"{path}, line {line}, byte {column}: 0x{content[error.start]:02x} is not valid UTF-8; "
            "save the file as UTF-8"
        ) from error


def read_jsonl(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number (from 1) and JSON object of each line.

    Raises :class:`~workbench.errors.DataError` naming file and line for broken JSON or anything but an
    object, and whatever :func:`read_lines` raises.
    """
    for number, line in enumerate(read_lines(path), 1):
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            reason = f"{error.msg} at character {error.colno}"
            raise DataError(f"{path}, line {number} is not valid JSON: {reason}") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits; endless nesting
            raise DataError(f"{path}, line {number} cannot be read as JSON: {error}") from error
        if not isinstance(value, dict):
            raise DataError(f"{path}, line {number} must be a JSON object, is {line:.40}")
        yield number, value


def text_field(record: dict[str, Any], name: str, where: str) -> str:
    """The string ``record[name]``; ``where`` (file and line) starts the error if there is none."""
    if name not in record:
        raise DataError(f"{where}: no field {name!r}; it has {', '.join(map(repr, record)) or 'no fields'}")
    if not isinstance(record[name], str):
        raise DataError(f"{where}: field {name!r} must be a string, is {record[name]!r:.40}")
    return check_text(record[name], where)


def check_text(text: str, where: str) -> str:
    """``text`` unless it holds a lone surrogate, which is no character and cannot be tokenized."""
    for position, character in enumerate(text, 1):
        if "\ud800" <= character <= "\udfff":
            raise DataError(
                f"{where}: character {position} is the lone surrogate \\u{ord(character):04x}; "
                "write the character itself or the full pair"
            )
    return text
