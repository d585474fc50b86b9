"""Files that appear whole or not at all, and that show it when a byte of them has changed since."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from workbench.errors import RunError, did_you_mean
from workbench.paths import ANOTHER_PLACE
from workbench.shapes import Array

__all__ = [
    "DamagedFile",
    "check_run_id",
    "default_root",
    "digest",
    "find_run",
    "make_folder",
    "name_with_digest",
    "plain",
    "read_arrays",
    "read_checked",
    "read_json",
    "read_verified",
    "reason",
    "remove_file",
    "write_arrays",
    "write_atomically",
    "write_json",
]

_CHECKSUM = "checksum"  # key of a JSON file's own checksum


_NAMED = re.compile(r".*-([0-9a-f]{16})\.[a-z]+")  # a name that ends with the start of the content's digest


TEMPORARY = ".part"  # ending of a file that is being written


_FULL = f"free some space there, or {ANOTHER_PLACE}"


_MISSING = f"make the folder first, or {ANOTHER_PLACE}"


_ADVICE: dict[int | None, str] = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EACCES: ANOTHER_PLACE,
    errno.EPERM: ANOTHER_PLACE,
    errno.EROFS: ANOTHER_PLACE,
    errno.ENOENT: _MISSING,
    errno.ENOTDIR: ANOTHER_PLACE,
    errno.EEXIST: ANOTHER_PLACE,  # a file where a folder should be
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
        remove_file(temporary)
        raise RunError(f"cannot write {path}: {reason(error)}") from error
    except BaseException:
        remove_file(temporary)
        raise


def make_folder(path: Path) -> Path:
    """Make the folder ``path`` if it is missing; raises :class:`~workbench.errors.RunError` if it cannot."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make {path}: {reason(error)}") from error
    return path


def reason(error: OSError) -> str:
    """What went wrong with a write, and what to do about it."""
    text = error.strerror or str(error)
    return f"{text}; {_ADVICE[error.errno]}" if error.errno in _ADVICE else text


def remove_file(path: Path) -> None:
    """Remove a file if that is possible."""
    with suppress(OSError):  # the reason that the write failed may hold here too (a folder that is gone)
        path.unlink(missing_ok=True)


class DamagedFile(RunError):
    """A file of a run whose content is not what was written, or not in its format."""


def digest(content: bytes) -> str:
    """SHA-256 of ``content``, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def name_with_digest(stem: str, content: bytes, suffix: str) -> str:
    """A file's name from which :func:`read_checked` knows what the content must be."""
    return f"{stem}-{digest(content)[:16]}{suffix}"


def read_checked(path: Path, expected: str | None = None) -> bytes:
    """The bytes of ``path``, compared with the digest ``expected`` or else with that in its name, if it has one.

    Raises :class:`DamagedFile` if they differ, and :class:`~workbench.errors.RunError` if it cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    named = _NAMED.fullmatch(path.name)
    wanted = expected or (named[1] if named else "")
    if not digest(content).startswith(wanted):
        raise DamagedFile(
            f"{path} is damaged: it does not match its checksum; restore it from a copy, or run again"
        )
    return content


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON by rename, with a checksum; see :func:`plain` for odd values."""
    content = plain(value)
    text = json.dumps(
        {**content, _CHECKSUM: _checksum(content)}, indent=2, ensure_ascii=False, allow_nan=False
    )
    write_atomically(path, (text + "\n").encode())


def read_json(path: Path, schema: int | None = None) -> dict[str, Any]:
    """The JSON object in ``path``, without its checksum; see :func:`read_verified`."""
    return read_verified(path, schema)[0]


def read_verified(path: Path, schema: int | None = None) -> tuple[dict[str, Any], bool]:
    """The JSON object in ``path``, and whether a checksum says that it is as it was written.

    A file of before there were checksums has none, nor has one that was changed by hand on purpose.
    Raises :class:`~workbench.errors.RunError` if there is no object, if its ``schema_version`` is not
    ``schema``, or if it has changed since it was written.
    """
    try:
        value = json.loads(path.read_bytes().decode())
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise DamagedFile(f"{path} must hold a JSON object, holds a {type(value).__name__}")
    version = value.get("schema_version")
    if schema is not None and version != schema:
        raise RunError(
            f"{path} has schema version {version!r:.20}, this workbench reads {schema}; "
            "use the workbench version that wrote it, or run again"
        )
    stored = value.pop(_CHECKSUM, None)
    if stored is not None and stored != _checksum(value):
        raise DamagedFile(
            f"{path} does not match its checksum: it was damaged, or changed by hand; restore it, "
            f'or remove its line "{_CHECKSUM}" to have it read as it is'
        )
    return value, stored is not None


def _checksum(value: dict[str, Any]) -> str:
    """Of the values, not of the layout."""
    return digest(json.dumps(value, sort_keys=True).encode())


def plain(value: Any, *, finite: bool = True) -> Any:
    """``value`` in what JSON can hold, or with ``finite=False`` what Parquet can.

    Lone surrogates in strings become the text ``\\udXXX``; paths become strings; NumPy values become
    Python's; tuples and sets become lists; with ``finite``, infinities and NaN become ``None``.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
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


def write_arrays(folder: Path, stem: str, arrays: Mapping[str, Any]) -> Path:
    """Write ``arrays`` as one file, whose name is ``stem`` and the start of its digest; returns its path."""
    from safetensors.numpy import save

    content = save(dict(arrays))
    path = folder / name_with_digest(stem, content, ".safetensors")
    write_atomically(path, content)
    return path


def read_arrays(path: Path, expected: str | None = None) -> dict[str, Array]:
    """The arrays of one file; ``expected`` is the SHA-256 of its bytes, where it is known and not in the name.

    Raises :class:`~workbench.errors.RunError` if it is missing, unreadable or damaged.
    """
    from safetensors.numpy import load

    content = read_checked(path, expected)
    try:
        return dict(load(content))
    except Exception as error:  # a damaged header raises whatever it leads to
        raise DamagedFile(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from error


def default_root() -> Path:
    """``WORKBENCH_RUNS`` if set, else ``runs`` in the current folder."""
    return Path(os.environ.get("WORKBENCH_RUNS") or "runs")


def check_run_id(name: str) -> str:
    """``name`` if it is a plain folder name; raises :class:`~workbench.errors.RunError` if not."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", name) or ".." in name:
        raise RunError(
            f"{name!r:.80} is not a run id: letters, digits, '.', '_' and '-' only, such as "
            "20261127-214501-smollm2-135m-lambada_sample-1a2b; a path to a run folder is fine too"
        )
    return name


def find_run(name: str | Path, root: Path | None = None) -> Path:
    """The folder of a run given by path or by id under ``root`` (default :func:`default_root`).

    Raises :class:`~workbench.errors.RunError` with the nearest ids if there is none.
    """
    path = Path(name)
    try:
        if (path / "run.json").is_file():
            return path
        if path.is_dir() or len(path.parts) > 1:
            problem = "holds no run.json" if path.is_dir() else "does not exist"
            raise RunError(f"{path} is not a run folder: it {problem}; list runs with: workbench runs")
        root = root or default_root()
        found = root / check_run_id(str(name))
        if (found / "run.json").is_file():
            return found
        known = sorted(p.parent.name for p in root.glob("*/run.json"))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    hint = did_you_mean(str(name), known) if known else "there are no runs there"
    raise RunError(f"no run {str(name)!r:.200} in {root}; {hint}")
