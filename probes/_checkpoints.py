"""Checkpoints of an experiment: its finished parts, so that an interrupted run goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from glob import escape
from pathlib import Path

from workbench.errors import RunError
from workbench.runs import make_folder, read_arrays, write_arrays
from workbench.shapes import Array

__all__ = ["Arrays", "Checkpointed", "PartCheckpoints", "not_stored"]

Arrays = dict[str, Array]
# Gives the arrays of a part by its name if they are there already, else makes and keeps them.
Checkpointed = Callable[[str, Callable[[], Arrays]], Arrays]


def not_stored(name: str, make: Callable[[], Arrays]) -> Arrays:
    """Make the part and store nothing."""
    return make()


# Part of each name: raise it when a part of the same name means something else, so that a run is not resumed from both.
_METHOD = "m2"


class PartCheckpoints:
    """Parts in a folder: a file each, whole or not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The arrays of part ``name``, made only if they are not there."""
        name = f"{name} {_METHOD}"
        for path in self.folder.glob(f"{escape(name)}-{'?' * 16}.safetensors"):
            try:
                return read_arrays(path)
            except RunError:
                path.unlink(missing_ok=True)  # damaged: made again
        arrays = make()
        make_folder(self.folder)
        write_arrays(self.folder, name, arrays)
        return arrays
