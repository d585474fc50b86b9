"""Rows of tables whose cells are texts, with errors that name file and line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.characters import check_text
from workbench.data.tables import read_table
from workbench.errors import DataError

__all__ = ["Row", "one_of", "refuse_equal", "table_rows"]


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
        except (TypeError, ValueError):
            raise DataError(
                f"{self.where}: {column} must be an integer, is {self.fields[column]!r:.40}"
            ) from None

    def decimal(self, column: str) -> float:
        """The field as a number; raises :class:`~workbench.errors.DataError` if it is none."""
        try:
            return float(self.fields[column])
        except (TypeError, ValueError):
            raise DataError(
                f"{self.where}: {column} must be a number, is {self.fields[column]!r:.40}"
            ) from None


def table_rows(path: Path | str, columns: Sequence[str], *, header: bool = True) -> Iterator[Row]:
    """Rows of a table by the file's ending: CSV, JSONL, …, or tab-separated where a ``"`` is text.

    ``columns`` must be there, or are the columns where there is no header. Raises
    :class:`~workbench.errors.DataError` as :func:`~workbench.data.tables.read_table` does.
    """
    for where, cells in read_table(path, None if header else columns, needs=columns):
        yield Row(cells, where)


def one_of(value: str, allowed: Sequence[str], where: str, what: str) -> str:
    """``value`` without white space around it if allowed; raises :class:`~workbench.errors.DataError` otherwise."""
    value = value.strip()
    if value not in allowed:
        raise DataError(f"{where}: {what} must be {' or '.join(map(repr, allowed))}, is {value!r:.40}")
    return value


def refuse_equal(first: str, second: str, where: str) -> None:
    """Raise :class:`~workbench.errors.DataError` if the members of a pair are equal."""
    if first == second:
        raise DataError(f"{where}: the two members of the pair are equal: {first!r:.60}")
