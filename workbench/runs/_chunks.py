"""Finished examples, kept in Parquet files as they come and merged when the run ends."""

from __future__ import annotations

import json
import os
import re
import socket
import weakref
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from workbench.errors import RunError
from workbench.runs._files import (
    TEMPORARY,
    DamagedFile,
    name_with_digest,
    plain,
    read_checked,
    write_atomically,
)

__all__ = [
    "RunLock",
    "chunk_paths",
    "discard_broken_chunks",
    "merge",
    "read_ids",
    "read_table",
    "write_chunk",
]


def write_chunk(folder: Path, number: int, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Store ``rows`` (each with an ``id``) as one file; returns their ids as stored."""
    safe = [plain(row, finite=False) for row in rows]
    if any("id" not in row for row in safe):
        raise RunError(f"every row of a run needs an 'id', got columns {sorted(safe[0])}")
    for row in safe:
        row["id"] = str(row["id"])
    # Two processes that resume the same run write under different names; merging drops what both did.
    content = _parquet_bytes(_table(safe))
    name = name_with_digest(f"{number:06d}-{uuid4().hex[:8]}", content, ".parquet")
    write_atomically(folder / name, content)
    return [row["id"] for row in safe]


def _table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    try:
        return pa.table({name: [row.get(name) for row in rows] for name in columns})
    except (pa.ArrowException, OverflowError) as error:
        raise RunError(f"a column of the examples cannot be stored: {error}") from error


def _parquet_bytes(table: pa.Table) -> bytes:
    buffer = BytesIO()
    try:
        pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    except pa.ArrowException as error:  # an empty dictionary, for example
        raise RunError(f"a column of the examples cannot be stored: {error}") from error
    return buffer.getvalue()


def chunk_paths(folder: Path) -> list[Path]:
    """Whole chunks in the order they were written; files still being written are left out."""
    return sorted(p for p in folder.glob("*.parquet") if not p.name.endswith(TEMPORARY))


def discard_broken_chunks(folder: Path) -> None:
    """Remove what is not as it was written (a disk that lost its tail): those examples are computed again."""
    for path in chunk_paths(folder):
        try:
            read_table(path)
        except DamagedFile:
            path.unlink(missing_ok=True)


def read_table(path: Path, expected: str | None = None) -> pa.Table:
    """One Parquet file of examples; ``expected`` is the SHA-256 of its bytes, where it is known.

    Raises :class:`~workbench.errors.RunError` if it is unreadable, damaged or without ids.
    """
    content = read_checked(path, expected)
    try:
        table = pq.read_table(BytesIO(content), page_checksum_verification=True)
        table.validate(full=True)
        ids = table.column("id").to_pylist()
    except Exception as error:  # damaged pages that have no checksum raise whatever they lead to
        raise DamagedFile(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from error
    if not all(isinstance(name, str) for name in ids):
        raise DamagedFile(f"{path} does not hold examples: every row needs an id that is text")
    return table


def read_ids(folder: Path) -> set[str]:
    """Ids of all rows in whole chunks."""
    return {i for path in chunk_paths(folder) for i in read_table(path).column("id").to_pylist()}


def merge(folder: Path, order: Sequence[str] | None = None) -> pa.Table:
    """All rows, each id once, in ``order`` or, without one, with numbers inside ids in numeric order."""
    tables = [read_table(path) for path in chunk_paths(folder)]
    if not tables:
        return pa.table({"id": pa.array([], pa.string())})
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise RunError(f"chunks in {folder} do not fit together: {error}") from error
    position = {name: row for row, name in reversed(list(enumerate(table.column("id").to_pylist())))}
    names = sorted(position, key=_natural)
    if order is not None:
        rank = {plain(name): k for k, name in enumerate(order)}
        names.sort(key=lambda name: rank.get(name, len(rank)))
    return table.take(pa.array([position[name] for name in names], pa.int64()))


def merged_bytes(folder: Path, order: Sequence[str] | None = None) -> bytes:
    """The merged table as one Parquet file."""
    return _parquet_bytes(merge(folder, order))


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d+)", name) if p)


try:
    import fcntl
except ImportError:  # on Windows runs are written without a lock
    fcntl = None  # type: ignore[assignment]


_NAME = ".lock"


_open: weakref.WeakValueDictionary[str, RunLock] = weakref.WeakValueDictionary()  # the locks of this process


class RunLock:
    """The right to write one run folder, until :meth:`release`, garbage collection or the end of the process.

    The file names its holder for others to read; it is the lock on it that counts, so the file that a killed
    process leaves is in nobody's way. Where the file system knows no locks, nothing is held.
    """

    def __init__(self, folder: Path, handle: int) -> None:
        self._path = folder / _NAME
        self._close = weakref.finalize(self, os.close, handle)

    @classmethod
    def take(cls, folder: Path) -> RunLock | None:
        """The lock of ``folder``; this process may take it again, ``None`` where there are no locks.

        Raises :class:`~workbench.errors.RunError` that names the process that holds it.
        """
        key = str(folder.resolve())
        if fcntl is None or key in _open:
            return _open.get(key)
        try:
            handle = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            return None  # a folder that cannot be written says so itself, when it is written
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, _describe().encode(), 0)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise RunError(
                    f"{folder} is being written by {_holder(folder)}; wait until that has ended, or end it, then "
                    "resume"
                ) from None
            return None
        lock = _open[key] = cls(folder, handle)
        return lock

    def release(self) -> None:
        """Remove the file of a run that is complete, and let go."""
        with suppress(OSError):
            self._path.unlink()
        _open.pop(str(self._path.parent.resolve()), None)
        self._close()


def _describe() -> str:
    now = datetime.now().strftime("%Y-%m-%d %H:%M:%S")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})


def _holder(folder: Path) -> str:
    """The process that a lock's file names."""
    try:
        about = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        return f"process {about['pid']} on {about['host']} since {about['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
