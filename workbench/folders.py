"""Folders that this package makes by itself: the cache, and folders that appear whole or not at all."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from workbench.errors import WorkbenchWarning
from workbench.paths import ANOTHER_PLACE

if sys.platform != "win32":  # there, what a killed process leaves stays; it is never read as whole
    import fcntl

__all__ = ["another_place", "cache_dir", "cached_folder", "folder_by_rename", "share"]


def cache_dir() -> Path:
    """Where everything that can be made again is kept: ``WORKBENCH_CACHE`` or ``~/.cache/transformer-workbench``."""
    chosen = os.environ.get("WORKBENCH_CACHE")
    if chosen:
        return Path(chosen)
    return _home() / ".cache" / "transformer-workbench"


def _home() -> Path:
    home = os.path.expanduser("~")  # noqa: PTH111  (Path.home raises for a user without a home)
    return Path("/nonexistent" if home == "~" else home)


def cached_folder(kind: str, key: str) -> Path:
    """The place of one cached thing: in :func:`cache_dir`, where it may be already, or in a temporary folder.

    The temporary folder stands in where the cache cannot be written; a warning says so, and the folder is removed
    when the process ends.
    """
    root = cache_dir()
    if os.path.isdir(root / kind / key):  # noqa: PTH112  (Path.is_dir raises in a folder that may not be entered)
        return root / kind / key
    problem = _problem(root / kind)
    if problem is None:
        return root / kind / key
    warnings.warn(
        f"the cache {root} cannot be written ({problem}); its content is made again each time, in a temporary "
        "folder, until WORKBENCH_CACHE names a folder that you may write",
        WorkbenchWarning,
        stacklevel=2,
    )
    return _temporary_cache() / kind / key


def _problem(folder: Path) -> str | None:
    """Why nothing can be written in ``folder``, which is made if it is missing; ``None`` if it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def another_place(path: str | None) -> str:
    """What to do where ``path`` cannot be read or written: the option or variable that chooses another place."""
    homes = {
        "WORKBENCH_CACHE": cache_dir(),
        "HF_HOME": Path(os.environ.get("HF_HOME") or _home() / ".cache" / "huggingface"),
    }
    for variable, home in homes.items():
        if path is not None and Path(path).absolute().is_relative_to(home.absolute()):
            return f"choose another folder with {variable}"
    return f"name another file, or {ANOTHER_PLACE}"


@cache
def _temporary_cache() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="transformer-workbench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def folder_by_rename(target: Path) -> Iterator[Path]:
    """Fill a temporary folder, then rename it to ``target``: readers see all of it or nothing.

    Another process that made ``target`` in the meantime is no error. What a killed process left of the same target is
    removed first. Raises :class:`OSError` where nothing can be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name[:40]}."
    temporary = target.with_name(f"{prefix}{uuid4().hex[:8]}.part")
    with _locked(target.parent):  # nobody takes a folder that is made but not locked yet for an abandoned one
        _remove_abandoned(target.parent, prefix)
        temporary.mkdir()
        lock = _lock(temporary)
    try:
        yield temporary
        share(temporary)
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        _unlock(lock)


def share(folder: Path) -> None:
    """Let all who may read ``folder`` read its files too: safetensors makes them for their owner alone."""
    mode = folder.stat().st_mode & 0o666
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            file.chmod(mode)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for path in parent.iterdir():
        if path.name.startswith(prefix) and path.name.endswith(".part"):
            lock = _lock(path, wait=False)
            if lock is not None:  # its writer is gone: a living one holds the lock
                shutil.rmtree(path, ignore_errors=True)
                _unlock(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = _lock(folder)
    try:
        yield
    finally:
        _unlock(lock)


def _lock(folder: Path, *, wait: bool = True) -> int | None:
    """A lock that ends with the process; ``None`` if another holds it, or locks do not exist here."""
    if sys.platform == "win32":
        return None
    descriptor = None
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return descriptor
    _unlock(descriptor)
    return None


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
