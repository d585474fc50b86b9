"""Checkpoints of one model: ``MODEL@step-8`` is the folder ``step-8`` in it, ``MODEL@step-*`` all of them."""

from __future__ import annotations

import re
from pathlib import Path

from workbench.errors import ModelError, did_you_mean
from workbench.paths import user_path

__all__ = ["checkpoint_path", "expand_checkpoints", "is_checkpoint_name", "step_of"]

_NAME = re.compile(r"(.+)@step-(\d+|\*)", re.ASCII | re.DOTALL)
_FOLDER = re.compile(r"step-\d+", re.ASCII)


def is_checkpoint_name(name: str) -> bool:
    """Whether ``name`` asks for one checkpoint or all of them."""
    return _NAME.fullmatch(name) is not None


def expand_checkpoints(name: str) -> list[Path]:
    """The folders that ``name`` stands for, in order of their steps.

    Raises :class:`~workbench.errors.ModelError` if the model has none, or not that one.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ModelError(f"{name!r} names no checkpoint; write MODEL@step-8, or MODEL@step-* for all")
    folder, wanted = user_path(match[1]), match[2]
    steps = (p for p in folder.glob("step-*") if _FOLDER.fullmatch(p.name))
    found = sorted((p for p in steps if (p / "config.json").is_file()), key=step_of)
    if not found:
        raise ModelError(f"no checkpoints in {folder}; keep some: workbench train --keep-steps 0,1,2,4,…")
    if wanted == "*":
        return found
    chosen = [p for p in found if p == checkpoint_path(name)]
    if not chosen:
        raise ModelError(
            f"no step-{wanted} in {folder}; {did_you_mean(f'step-{wanted}', [p.name for p in found])}"
        )
    return chosen


def checkpoint_path(name: str) -> Path:
    """The folder of the one checkpoint that ``name`` asks for, whether it is there or not."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return user_path(match[1]) / f"step-{match[2]}"


def step_of(folder: Path) -> int:
    """The step in the name of a checkpoint's folder."""
    return int(folder.name.rsplit("-", 1)[1])
