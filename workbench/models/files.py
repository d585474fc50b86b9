"""Files behind a model: content hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

__all__ = ["content_hash"]


def content_hash(files: Iterable[Path]) -> str:
    """SHA-256 over the bytes of ``files`` in name order."""
    digest = hashlib.sha256()
    for file in sorted(files):
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()
