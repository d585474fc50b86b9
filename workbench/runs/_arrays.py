"""Named NumPy arrays in a safetensors file, checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.runs._files import DamagedFile, name_with_digest, read_checked, write_atomically
from workbench.shapes import Array

__all__ = ["read_arrays", "write_arrays"]


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
