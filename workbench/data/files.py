"""Reading text files strictly: an error names the file, line and position of what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from workbench.characters import check_text
from workbench.errors import DataError

__all__ = [
    "find_file",
    "find_fitting",
    "parse_object",
    "read_json",
    "read_jsonl",
    "read_lines",
    "read_text",
    "text_field",
    "write_text",
]


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


def find_fitting(place: Path | str, fits: Callable[[Path], bool], what: str, *names: str) -> Path:
    """``place`` itself unless it is a folder; there the first of ``names``, else the only file that ``fits``.

    ``what`` says in words what fits ("the columns a, b"). Raises :class:`~workbench.errors.DataError` if several files
    fit, and as :func:`find_file` does if none does.
    """
    place = Path(place)
    if not place.is_dir():
        return place
    try:
        return find_file(place, *names)
    except DataError:
        found = [file for file in sorted(place.glob("*")) if file.is_file() and fits(file)]
        if not found:
            raise
    if len(found) > 1:
        listing = ", ".join(file.name for file in found[:5]) + (", ..." if len(found) > 5 else "")
        raise DataError(f"{place} holds {len(found)} files with {what} ({listing}); give one of them")
    return found[0]


def read_text(path: Path | str) -> str:
    """The characters of a UTF-8 file as they are, without a byte order mark at the start.

    Raises :class:`~workbench.errors.DataError` if the file is unreadable, empty, or not UTF-8 (naming line and byte).
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise DataError(f"{path} is empty")
    return _decoded(path, content)


def write_text(path: Path | str | os.PathLike[str], text: str) -> Path:
    """Write a UTF-8 file; a temporary one is renamed at the end, so no half file is left. Returns its path."""
    target = Path(path)
    with NamedTemporaryFile("w", encoding="utf-8", newline="\n", dir=target.parent, delete=False) as file:
        file.write(text)
    Path(file.name).replace(target)
    return target


def read_lines(path: Path | str, *, blank: bool = False) -> list[str]:
    """Lines of a UTF-8 file, ended by LF or CRLF; other Unicode line separators belong to the text.

    Raises :class:`~workbench.errors.DataError` for an empty line unless ``blank`` allows it, and as
    :func:`read_text` does.
    """
    lines = [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]
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
    """Line number (from 1) and JSON object of each line that is not blank; only LF ends a line.

    Raises :class:`~workbench.errors.DataError` as :func:`parse_object` and :func:`read_lines` do.
    """
    for number, line in enumerate(read_lines(path, blank=True), 1):
        if line.strip():
            yield number, parse_object(line, f"{path}, line {number}")


def parse_object(text: str | bytes, where: str) -> dict[str, Any]:
    """The JSON object in ``text``, one line of a file.

    Raises :class:`~workbench.errors.DataError` that begins with ``where`` for broken JSON or anything but an object.
    """
    value = _parsed(text, where, lambda error: where)
    if not isinstance(value, dict):
        raise DataError(f"{where} must be a JSON object, is {text!r:.40}")
    return value


def read_json(path: Path | str) -> Any:
    """The value in a JSON file; raises :class:`~workbench.errors.DataError` naming line and column if broken."""
    return _parsed(read_text(path), str(path), lambda error: f"{path}, line {error.lineno}")


def _parsed(text: str | bytes, where: str, place: Callable[[json.JSONDecodeError], str]) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at character {error.colno}"
        raise DataError(f"{place(error)} is not valid JSON: {reason}") from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of thousands of digits; endless nesting; not UTF-8
        raise DataError(f"{where} cannot be read as JSON: {error}") from error


def text_field(record: dict[str, Any], name: str, where: str) -> str:
    """The string ``record[name]``; ``where`` (file and line) starts the error if there is none."""
    if name not in record:
        raise DataError(f"{where}: no field {name!r}; it has {', '.join(map(repr, record)) or 'no fields'}")
    if not isinstance(record[name], str):
        raise DataError(f"{where}: field {name!r} must be a string, is {record[name]!r:.40}")
    return check_text(record[name], where)
