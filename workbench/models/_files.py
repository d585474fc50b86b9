"""Files behind a model: content hashes and the cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_dir", "content_hash", "folder_by_rename"]


def cache_dir() -> Path:
    """Where converted weights are kept: ``WORKBENCH_CACHE`` or ``~/.cache/transformer-workbench``."""
    return Path(os.environ.get("WORKBENCH_CACHE", Path.home() / ".cache" / "transformer-workbench"))


def content_hash(files: Iterable[Path]) -> str:
    """SHA-256 over the bytes of ``files`` in name order."""
    digest = hashlib.sha256()
    for file in sorted(files):
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


@contextmanager
def folder_by_rename(target: Path) -> Iterator[Path]:
    """Fill a temporary folder, then rename it to ``target``: readers see all of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name[:20]}-", dir=target.parent))
    try:
        yield temporary
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():  # another process that did the same work first is no error
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
