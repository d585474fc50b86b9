"""Writing so that a killed process or a full disk leaves the old file or the new one, never a half."""

from __future__ import annotations

import errno
import json
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from workbench.errors import RunError

__all__ = ["plain", "read_json", "reason", "write_atomically", "write_json"]

TEMPORARY = ".part"  # ending of a file that is being written

_FULL = "free some space there, or choose another folder"
_FORBIDDEN = "choose a folder that you may write"
_MISSING = "make the folder first, or choose another"
_ADVICE: dict[int | None, str] = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
    errno.ENOENT: _MISSING,
    errno.ENOTDIR: _MISSING,
}


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path``, flush it to disk, then rename it to ``path``.

    Raises :class:`~workbench.errors.RunError` where the folder is missing, unwritable or full.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}{TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        _remove(temporary)
        raise RunError(f"cannot write {path}: {reason(error)}") from error
    except BaseException:
        _remove(temporary)
        raise


def reason(error: OSError) -> str:
    """What went wrong with a write, and what to do about it."""
    text = error.strerror or str(error)
    return f"{text}; {_ADVICE[error.errno]}" if error.errno in _ADVICE else text


def _remove(path: Path) -> None:
    with suppress(OSError):  # the reason that the write failed may hold here too (a folder that is gone)
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON by rename; see :func:`plain` for what becomes of odd values."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; raises :class:`~workbench.errors.RunError` if there is none."""
    try:
        value = json.loads(path.read_bytes().decode())
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise RunError(f"{path} must hold a JSON object, holds a {type(value).__name__}")
    return value


def plain(value: Any, *, finite: bool = True) -> Any:
    """``value`` in what JSON can hold, or with ``finite=False`` what Parquet can.

    Lone surrogates in strings become the text ``\\udXXX``; paths become strings; NumPy values become
    Python's; tuples and sets become lists; with ``finite``, infinities and NaN become ``None``.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {plain(str(k)): plain(v, finite=finite) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, finite=finite) for v in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(v, finite=finite) for v in value)
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), finite=finite)
    if isinstance(value, int | float) or value is None:
        return None if finite and value is not None and not math.isfinite(value) else value
    return plain(str(value))
