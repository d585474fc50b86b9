"""The one reader of tables: JSONL, JSON, CSV, TSV (a quote is text there) and Parquet."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from workbench.characters import check_text
from workbench.data.files import find_fitting, read_json, read_jsonl, read_lines, read_text
from workbench.data.hub import HubName, hub_rows, is_hub_name
from workbench.errors import DataError, did_you_mean

__all__ = [
    "FORMATS",
    "Row",
    "Rows",
    "check_column",
    "class_label",
    "find_table",
    "has_columns",
    "is_table",
    "number_of",
    "read_marks",
    "read_rows",
    "read_table",
    "records_of",
    "table_name",
    "text_column",
]

Row = dict[str, Any]
Rows: TypeAlias = "pd.DataFrame | Iterable[Mapping[str, Any]]"
"""Rows in memory: a DataFrame, a ``datasets.Dataset``, or mappings from column to value."""

_TEXT_COLUMNS = ("sentence", "text", "sentence1", "premise", "question")
FORMATS = (".csv", ".tsv", ".txt", ".jsonl", ".json", ".parquet")


def read_table(
    path: Path | str, columns: Sequence[str] | None = None, *, needs: Sequence[str] = ()
) -> Iterator[tuple[str, Row]]:
    """Where each row stands ("FILE, line 3") and its cells by column.

    By the file's ending: ``.jsonl`` is one object a line, ``.json`` a list of objects, ``.csv`` quoted cells that may
    hold line breaks, ``.parquet`` typed columns; any other is tab-separated without quoting. LF, or CRLF, ends a line;
    blank lines are no rows. ``hub:owner/name`` is a data set on the hub (:mod:`~workbench.data.hub`). ``columns``
    names those of a CSV or TSV file without a header; ``needs`` must be in the header, or in each record.

    Raises :class:`~workbench.errors.DataError` naming file and line for anything that is no such table.
    """
    path = Path(path)
    records = _records(path)
    if records is None:
        lines = _csv_cells(path) if path.suffix == ".csv" else _tsv_cells(path)
        yield from _named(path, lines, columns, needs)
        return
    for where, record in records:
        _check_needs(record, needs, where)
        yield where, record


def _records(path: Path) -> Iterator[tuple[str, Row]] | None:
    """The rows of a format whose rows name their columns; ``None`` for CSV and TSV."""
    if is_hub_name(path):
        return hub_rows(path)
    if path.suffix == ".jsonl":
        return ((f"{path}, line {number}", record) for number, record in read_jsonl(path))
    if path.suffix == ".json":
        return _json_list(path)
    return _parquet(path) if path.suffix == ".parquet" else None


def _check_needs(columns: Iterable[str], needs: Sequence[str], where: str) -> None:
    missing = [column for column in needs if column not in columns]
    if missing:
        raise DataError(
            f"{where}: no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, columns))}"
        )


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[Row]:
    """All rows of a table of a user, without their places.

    Raises :class:`~workbench.errors.DataError` for an unknown ending, no rows, and as :func:`read_table` does.
    """
    if not is_table(path):
        raise DataError(f"cannot tell the format of {path}; allowed endings: {', '.join(FORMATS)}")
    rows = [row for _, row in read_table(path, columns)]
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows


def is_table(name: Path | str) -> bool:
    """Whether a user means a table by its name: a file with an ending of a table's, or a data set on the hub."""
    return is_hub_name(name) or Path(name).suffix in FORMATS


def table_name(place: Path | str) -> str:
    """What a table is called in results: the file's name without its ending, or the data set's."""
    return HubName.parse(place).name if is_hub_name(place) else Path(place).stem


def find_table(place: Path | str, columns: Sequence[str], *names: str, without: Sequence[str] = ()) -> Path:
    """``place`` itself unless it is a folder; there the first of ``names``, else the only table with ``columns``.

    Files as published, under whatever name: ``without`` names columns that a like table has more. Raises as
    :func:`~workbench.data.files.find_fitting` does.
    """
    what = f"the columns {', '.join(columns)}"
    return find_fitting(place, lambda path: has_columns(path, columns, without), what, *names)


def has_columns(path: Path, columns: Sequence[str], without: Sequence[str] = ()) -> bool:
    """Whether the file is a table whose first row has all ``columns`` and none of those ``without``."""
    if not is_table(path):
        return False
    try:
        _, first = next(read_table(path), ("", {}))
    except DataError:
        return False
    return set(columns) <= set(first) and not set(without) & set(first)


def records_of(rows: Rows, where: str) -> list[Row]:
    """Rows in memory as mappings: a pandas DataFrame, a ``datasets.Dataset``, or mappings themselves.

    What is missing in a DataFrame (NaN, ``None``, ``NaT``) is ``None``. Raises :class:`~workbench.errors.DataError` for
    anything else, for no rows, and for columns of one name or without a text as name.
    """
    if isinstance(rows, pd.DataFrame):
        names = [str(name) for name in rows.columns]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"{where}: two columns are called {twice!r}; rename one")
        values = rows.astype(object).where(rows.notna(), None).itertuples(index=False, name=None)
        found: list[Any] = [dict(zip(names, row, strict=True)) for row in values]
    else:
        found = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, str | Mapping) else [rows]
    for number, row in enumerate(found, 1):
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            raise DataError(
                f"{where}, row {number} is {row!r:.60}; give a DataFrame, a Dataset, or a mapping from column to value "
                "for each row"
            )
    if not found:
        raise DataError(f"{where} has no rows")
    return [dict(row) for row in found]


def check_column(column: str | None, columns: Sequence[str], where: object) -> None:
    """Raise :class:`~workbench.errors.DataError`, with the nearest name, for a column that is missing."""
    if column is not None and column not in columns:
        raise DataError(f"{where} has no column {column!r}; {did_you_mean(column, list(columns))}")


def text_column(columns: Sequence[str], wanted: str | None, where: object) -> str:
    """The column that holds the texts: ``wanted``, else ``sentence``, ``text`` or the like.

    Raises :class:`~workbench.errors.DataError` where there is none.
    """
    check_column(wanted, columns, where)
    found = wanted or next((name for name in _TEXT_COLUMNS if name in columns), None)
    if found is None:
        raise DataError(f"{where}: which column is the text? --text-column, of {', '.join(columns)}")
    return found


def class_label(value: object, where: str) -> str:
    """The name of a class without white space around it; raises :class:`~workbench.errors.DataError` if it is none.

    Nothing, NaN and -1 (as data sets on the hub write it) mark rows without a label.
    """
    text = check_text(str(value), where).strip()
    if value is None or text.lower() in ("", "nan", "-1", "-1.0"):
        raise DataError(
            f"{where}: the label is {value!r}, which marks rows without one; remove them, or name the class"
        )
    return text


def number_of(value: object, where: str, name: str) -> float:
    """A score as a finite number; raises :class:`~workbench.errors.DataError` for anything else."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{where}: {name} is {value!r:.40}, not a finite number")
    return number


def read_marks(value: object, place: str) -> tuple[int, ...] | None:
    """A rationale: 0 or 1 for each word, from a list or its spelling, ``None`` where there is none.

    Raises :class:`~workbench.errors.DataError` that begins with ``place``.
    """
    if value is None:
        return None
    values = value.replace(",", " ").strip("[]").split() if isinstance(value, str) else value
    try:
        marks = [float(mark) for mark in values]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        marks = [math.nan]
    if set(marks) - {0.0, 1.0}:
        raise DataError(f"{place}: a rationale is a list of 0 and 1, is {value!r:.40}")
    return tuple(int(mark) for mark in marks)


def _json_list(path: Path) -> Iterator[tuple[str, Row]]:
    value = read_json(path)
    if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
        raise DataError(f"{path} must be a JSON list of objects")
    yield from ((f"{path}, entry {number}", record) for number, record in enumerate(value))


def _parquet(path: Path) -> Iterator[tuple[str, Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[Row] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path} as Parquet: {str(error).split(chr(10))[0][:200]}") from error
    yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows))


def _tsv_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path, blank=True), 1):
        if line.strip():
            yield number, line.split("\t")


def _csv_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line in which each row begins, and its cells."""
    text = read_text(path)
    # The module refuses cells beyond 131,072 characters by default. Raised only: another thread may be reading.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    start = 1
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {start} is not valid CSV: {error}") from error


def _named(
    path: Path, lines: Iterable[tuple[int, list[str]]], columns: Sequence[str] | None, needs: Sequence[str]
) -> Iterator[tuple[str, Row]]:
    names = None if columns is None else list(columns)
    for number, cells in lines:
        if names is None:
            names = cells
            _check_needs(names, needs, f"{path}, line {number}")
        elif len(cells) != len(names):
            expected = f"{len(names)} ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''})"
            raise DataError(f"{path}, line {number} has {len(cells)} cells; expected {expected}")
        else:
            yield f"{path}, line {number}", dict(zip(names, cells, strict=True))
