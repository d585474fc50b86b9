"""The folder of a run that trains: free, in the way, or there to go on with."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from workbench.errors import RunError
from workbench.runs import Run, RunFolder
from workbench.training.checkpoints import find_checkpoints

__all__ = ["claim_folder", "discard_broken_checkpoints", "has_progress", "record_file"]

# what an unfinished run consists of; a folder with anything else is never removed
_OWN = re.compile(
    r"run\.json|recipe\.yaml|log.*\.jsonl|chunks|runs|seeds|checkpoint-.*|base|generator|\..*"
    r"|.*\.safetensors(\.index\.json)?|(generation_|tokenizer_|adapter_)?config\.json|tokenizer\.json"
    r"|special_tokens_map\.json|added_tokens\.json|vocab\.(txt|json)|merges\.txt|.*\.model|chat_template.*|README\.md"
)


def record_file(out: Path) -> Path:
    """Where a run in ``out`` has its record."""
    return out / "run.json"


def claim_folder(out: Path, verb: str, *, resume: bool) -> Run | None:
    """The run of ``verb`` in ``out``, if it shall go on; else nothing, and the place is free.

    A run that was stopped before there was anything to go on from is removed where ``resume`` was not asked. Raises
    :class:`~workbench.errors.RunError` for a folder in use.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        if out.is_dir():
            out.rmdir()
        return None
    advice = "remove it, or choose another --out"
    if not out.is_dir() or not record_file(out).is_file():
        raise RunError(f"{out} exists already; {advice}")
    run = Run.open(out.resolve())
    if run.record.verb != verb:
        raise RunError(f"{out} exists already and is a run of {run.record.verb}; {advice}")
    if resume:
        return run
    if run.complete:
        raise RunError(f"{out} exists already and is finished; {advice}")
    foreign = [p.name for p in sorted(out.iterdir()) if not _OWN.fullmatch(p.name)]
    if foreign or has_progress(out):
        beside = f" with {foreign[0]}" if foreign else ""
        raise RunError(f"{out} exists already, an unfinished run{beside}; go on with --resume, {advice}")
    RunFolder(out, run.record).remove()
    return None


def has_progress(out: Path) -> bool:
    """Whether there is a whole checkpoint, of the run or of one of its seeds, or a seed that is done."""
    places = (out, *(out / "seeds").glob("seed-*"))
    whole = any(not c.problem for place in places for c in find_checkpoints(place))
    return whole or any((out / "seeds").glob("*.json"))


def discard_broken_checkpoints(run: Path) -> None:
    """Remove checkpoints that were not written to their end."""
    for checkpoint in find_checkpoints(run):
        if checkpoint.problem:
            shutil.rmtree(checkpoint.path, ignore_errors=True)
