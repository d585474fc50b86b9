"""Rows of a table on disk: CSV, TSV (quotes are text there), JSONL, Parquet."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workbench.errors import DataError

__all__ = ["Row", "read_marks", "read_rows"]

Row = dict[str, Any]
FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")


def read_rows(path: Path, columns: tuple[str, ...] | None = None) -> list[Row]:
    """All rows as dictionaries; ``columns`` names those of a file without a header.

    Raises :class:`~workbench.errors.DataError` naming file and line for anything that is no such table.
    """
    try:
        if path.suffix == ".parquet":
            rows = _parquet(path)
        elif path.suffix == ".jsonl":
            rows = _jsonl(path)
        elif path.suffix in {".csv", ".tsv", ".txt"}:
            rows = _delimited(path, columns, tabs=path.suffix != ".csv")
        else:
            raise DataError(f"cannot tell the format of {path}; allowed endings: {', '.join(FORMATS)}")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows


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


def _parquet(path: Path) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[Row] = pq.read_table(path).to_pylist()
        return rows
    except pa.ArrowException as error:
        raise DataError(f"cannot read {path}: {str(error).splitlines()[0][:200]}") from error


def _jsonl(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number} is not valid JSON: {error}") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number} must be a JSON object, is {line:.40}")
        rows.append(row)
    return rows


def _delimited(path: Path, columns: tuple[str, ...] | None, *, tabs: bool) -> list[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = (line.rstrip("\r\n").split("\t") for line in file) if tabs else csv.reader(file)
        return _named(path, lines, columns)


def _named(path: Path, lines: Iterable[list[str]], columns: tuple[str, ...] | None) -> list[Row]:
    rows: list[Row] = []
    names = list(columns) if columns else None
    for number, cells in enumerate(lines, 1):
        if names is None:
            names = cells
        elif cells and cells != [""]:
            if len(cells) != len(names):
                raise DataError(f"{path}, line {number} has {len(cells)} cells, the header has {len(names)}")
            rows.append(dict(zip(names, cells, strict=True)))
    return rows
