"""Rows of tables and JSON, with errors that name file and line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.data._files import check_text, read_lines
from workbench.errors import DataError

__all__ = ["Row", "csv_rows", "one_of", "read_json", "refuse_equal", "tsv_rows"]


@dataclass(frozen=True)
class Row:
    """One row of a table: its fields by column, and where it stands."""

    fields: dict[str, str]
    where: str

    def __getitem__(self, column: str) -> str:
        return check_text(self.fields[column], self.where)

    def integer(self, column: str) -> int:
        """The field as an integer; raises :class:`~workbench.errors.DataError` if it is none."""
        try:
            return int(self.fields[column])
        except ValueError:
            raise DataError(
                f"{self.where}: {column} must be an integer, is {self.fields[column]!r:.40}"
            ) from None

    def decimal(self, column: str) -> float:
        """The field as a number; raises :class:`~workbench.errors.DataError` if it is none."""
        try:
            return float(self.fields[column])
        except ValueError:
            raise DataError(
                f"{self.where}: {column} must be a number, is {self.fields[column]!r:.40}"
            ) from None


def _check_columns(path: Path, there: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [column for column in wanted if column not in there]
    if missing:
        raise DataError(
            f"{path}, line 1: no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, there))}"
        )


def tsv_rows(path: Path | str, columns: Sequence[str], *, header: bool = True) -> Iterator[Row]:
    """Rows of a tab-separated file without quoting: a ``"`` is text.

    ``columns`` must be in the header, or are the columns where there is none. Raises
    :class:`~workbench.errors.DataError` for a missing column or a row of another length.
    """
    path = Path(path)
    lines = read_lines(path)
    names = lines[0].split("\t") if header else list(columns)
    _check_columns(path, names, columns)
    for number, line in enumerate(lines[header:], start=1 + header):
        fields = line.split("\t")
        if len(fields) != len(names):
            raise DataError(f"{path}, line {number} has {len(fields)} fields, the header {len(names)}")
        yield Row(dict(zip(names, fields, strict=True)), f"{path}, line {number}")


def csv_rows(path: Path | str, columns: Sequence[str], *, delimiter: str = ",") -> Iterator[Row]:
    """Rows of a quoted CSV file; a quoted field may hold line breaks.

    Raises :class:`~workbench.errors.DataError` for a missing column, a row of another length or a stray quote.
    """
    path = Path(path)
    # Read through read_lines for its checks of encoding; CSV needs the line breaks back.
    text = "\n".join(read_lines(path)) + "\n"
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    start = 1
    names: list[str] | None = None
    try:
        for fields in reader:
            if names is None:
                names = fields
                _check_columns(path, names, columns)
            elif len(fields) != len(names):
                raise DataError(f"{path}, line {start} has {len(fields)} fields, the header {len(names)}")
            else:
                yield Row(dict(zip(names, fields, strict=True)), f"{path}, line {start}")
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {start} is not valid CSV: {error}") from error


def read_json(path: Path | str) -> Any:
    """The value in a JSON file; raises :class:`~workbench.errors.DataError` naming line and column if broken."""
    path = Path(path)
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, byte {error.start + 1} is not valid UTF-8; save the file as UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}, line {error.lineno} is not valid JSON: {error.msg}, column {error.colno}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error


def one_of(value: str, allowed: Sequence[str], where: str, what: str) -> str:
    """``value`` if allowed; raises :class:`~workbench.errors.DataError` otherwise."""
    if value not in allowed:
        raise DataError(f"{where}: {what} must be {' or '.join(map(repr, allowed))}, is {value!r:.40}")
    return value


def refuse_equal(first: str, second: str, where: str) -> None:
    """Raise :class:`~workbench.errors.DataError` if the members of a pair are equal."""
    if first == second:
        raise DataError(f"{where}: the two members of the pair are equal: {first!r:.60}")
