"""Finished parts of an experiment, kept so that one that is cut short goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from workbench.runs import write_atomically
from workbench.shapes import Array

__all__ = ["Arrays", "Keep", "Kept", "now"]

Arrays = dict[str, Array]
# Gives the arrays of a part by its name if they are there already, else makes and keeps them.
Keep = Callable[[str, Callable[[], Arrays]], Arrays]


def now(name: str, make: Callable[[], Arrays]) -> Arrays:
    """Keep nothing."""
    return make()


class Kept:
    """Parts in a folder: a file each, whole or not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The arrays of part ``name``, made only if they are not there."""
        path = self.folder / f"{name}.safetensors"
        if path.is_file():
            try:
                return dict(load_file(path))
            except (OSError, SafetensorError):
                pass  # broken by a full disk: made again
        arrays = make()
        self.folder.mkdir(exist_ok=True)
        write_atomically(path, save(arrays))
        return arrays
