"""Who is writing a run: a lock that the operating system takes back when its holder ends, however it ends."""

from __future__ import annotations

import json
import os
import socket
import weakref
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from workbench.errors import RunError

try:
    import fcntl
except ImportError:  # on Windows runs are written without a lock
    fcntl = None  # type: ignore[assignment]

__all__ = ["RunLock"]

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
