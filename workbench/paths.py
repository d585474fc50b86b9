"""Paths by a user's word: what no file system can hold is refused before any file is looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from workbench.characters import lone_surrogate
from workbench.errors import DataError, WorkbenchError

__all__ = ["ANOTHER_PLACE", "check_folder", "check_output", "is_inside", "user_path"]

# What to do where nothing can be written; see workbench.folders for the cache, which finds another place itself.
ANOTHER_PLACE = "choose another folder with --out, or with WORKBENCH_RUNS for all runs"

_LONGEST_NAME, _LONGEST_PATH = 255, 4096  # bytes, on Linux and macOS


def user_path(word: str | os.PathLike[str]) -> Path:
    """The path that ``word`` names, ``~`` being the home folder.

    Raises :class:`~workbench.errors.DataError` for a name that no file can have: empty, too long, with a NUL character,
    or with bytes that are no UTF-8.
    """
    text = os.fspath(word)
    if not text:
        raise DataError("the path is empty; name a file or a folder, or leave the option out")
    if "\0" in text or lone_surrogate(text) is not None:
        raise DataError(f"path {text!r:.60} is no name of a file; write it in UTF-8, without NUL characters")
    longest = max((len(part.encode()) for part in text.split("/")), default=0)
    if longest > _LONGEST_NAME or len(text.encode()) >= _LONGEST_PATH:
        raise DataError(
            f"path {text!r:.40}… is too long: a name in it has {longest} bytes of at most {_LONGEST_NAME}, "
            f"the whole {len(text.encode())} of {_LONGEST_PATH}"
        )
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # ~name of nobody here
        raise DataError(f"path {text!r:.60} begins with a home folder that does not exist") from error


def is_inside(path: Path, folders: Iterable[Path]) -> bool:
    """Whether ``path``, all links and ``..`` in it followed, lies in one of ``folders``."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # links in a circle
        return False
    return any(real.is_relative_to(folder.resolve()) for folder in folders)


def check_output(path: Path, suffixes: Iterable[str] = ()) -> Path:
    """``path`` if a file can be written there; with ``suffixes`` its name ends in one of them.

    Raises :class:`~workbench.errors.WorkbenchError`: what takes minutes to compute should have a place.
    """
    allowed = sorted(suffixes)
    if allowed and path.suffix.lower() not in allowed:
        raise WorkbenchError(
            f"cannot write {path.name!r}: suffix {path.suffix!r} is not one of {', '.join(allowed)}"
        )
    if path.is_dir():
        example = path / f"result{allowed[0] if allowed else '.html'}"
        raise WorkbenchError(f"cannot write {path}: it is a folder; name a file such as {example}")
    check_folder(path.parent)
    return path


def check_folder(folder: Path) -> Path:
    """``folder`` if it can be written or made; raises :class:`~workbench.errors.WorkbenchError` otherwise."""
    # Path.exists raises below a folder that may not be searched
    there = next(p for p in (folder, *folder.absolute().parents) if os.path.exists(p))  # noqa: PTH110
    if not there.is_dir():
        raise WorkbenchError(f"cannot write in {folder}: {there} is a file; {ANOTHER_PLACE}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise WorkbenchError(f"cannot write in {folder}: {there} is not yours to write; {ANOTHER_PLACE}")
    return folder
