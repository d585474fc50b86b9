"""The folder of a run that trains, and the checkpoints in it, which say whether they are whole and whose they are."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import RunError
from workbench.folders import share
from workbench.runs import Run, RunFolder, write_atomically

__all__ = [
    "Checkpoint",
    "claim_folder",
    "discard_broken_checkpoints",
    "find_checkpoints",
    "has_progress",
    "mark_complete",
    "record_file",
    "resume_point",
    "save_model_folder",
]

MARKER = "complete.json"


@dataclass(frozen=True)
class Checkpoint:
    """A folder ``checkpoint-N``; ``problem`` says why it cannot be used, and is empty if it can."""

    path: Path
    step: int
    recipe: str
    problem: str = ""


def mark_complete(folder: Path, recipe: str, step: int) -> None:
    """Write, last, what the checkpoint holds; a checkpoint without this file is incomplete."""
    files = {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.is_file() and p.name != MARKER}
    content = {"recipe_sha256": recipe, "step": step, "files": files}
    write_atomically(folder / MARKER, json.dumps(content, indent=1).encode())


def find_checkpoints(run: Path) -> list[Checkpoint]:
    """All checkpoints of a run, the oldest first."""
    found = [
        (int(match[1]), path)
        for path in run.glob("checkpoint-*")
        if path.is_dir() and (match := re.fullmatch(r"checkpoint-(\d+)", path.name))
    ]
    return [_read(path, step) for step, path in sorted(found)]


def _read(path: Path, step: int) -> Checkpoint:
    try:
        content = json.loads((path / MARKER).read_text())
        recipe, files = str(content["recipe_sha256"]), dict(content["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return Checkpoint(path, step, "", "it was cut short while it was written")
    for name, size in files.items():
        if not (path / name).is_file() or (path / name).stat().st_size != size:
            return Checkpoint(path, step, recipe, f"its {name} is missing or has another size")
    return Checkpoint(path, step, recipe)


def resume_point(run: Path, recipe: str, chosen: Path | None = None) -> Checkpoint:
    """The checkpoint to go on from: ``chosen``, or the last whole one.

    Raises :class:`~workbench.errors.RunError` if there is none, if the chosen one is half-written (naming the last
    good one), or if it belongs to another recipe, corpus or tokenizer.
    """
    checkpoints = find_checkpoints(run)
    good = [c for c in checkpoints if not c.problem]
    if chosen is not None:
        asked = next((c for c in checkpoints if c.path.resolve() == chosen.resolve()), None)
        if asked is None:
            raise RunError(f"no checkpoint {chosen} in {run}; it has {_names(checkpoints)}")
        if asked.problem:
            offer = f"; the last good one is {good[-1].path}" if good else "; there is no other: start again"
            raise RunError(f"cannot resume from {chosen}: {asked.problem}{offer}")
    else:
        if not good:
            why = f" ({checkpoints[-1].path.name}: {checkpoints[-1].problem})" if checkpoints else ""
            raise RunError(f"no whole checkpoint in {run}{why}; go on without --checkpoint, from the start")
        asked = good[-1]
    if asked.recipe != recipe:
        fitting = [c for c in good if c.recipe == recipe]
        offer = (
            f"go on from {fitting[-1].path}" if fitting else f"use the same settings ({run / 'recipe.yaml'})"
        )
        raise RunError(
            f"{asked.path} is from another configuration, corpus or tokenizer (recipe {asked.recipe[:12]}, "
            f"now {recipe[:12]}); {offer}, or another --out"
        )
    return asked


def _names(checkpoints: list[Checkpoint]) -> str:
    return ", ".join(c.path.name for c in checkpoints) or "none"


def save_model_folder(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write model and tokenizer so that ``workbench.load`` and transformers open ``folder``; whole or not at all."""
    staging = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir(parents=True)
        model.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        share(staging)
        if folder.is_dir():
            for file in staging.iterdir():
                file.replace(folder / file.name)
        else:
            staging.rename(folder)
    except OSError as error:
        raise RunError(
            f"cannot save the model in {folder}: {error.strerror or error}; free some space there"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


# what an unfinished run consists of; a folder with anything else is never removed
_OWN = re.compile(
    r"run\.json|recipe\.yaml|log.*\.jsonl|chunks|tensorboard|runs|seeds|members|checkpoint-.*|base|generator|span_boundary|\..*"
    r"|.*\.safetensors(\.index\.json)?|(generation_|tokenizer_|adapter_)?config\.json|tokenizer\.json"
    r"|special_tokens_map\.json|added_tokens\.json|vocab\.(txt|json)|merges\.txt|.*\.model|chat_template.*|README\.md"
)


def record_file(out: Path) -> Path:
    """Where a run in ``out`` has its record."""
    return out / "run.json"


def claim_folder(out: Path, verb: str, *, resume: bool) -> Run | None:
    """The run of ``verb`` in ``out``, if it is to be continued; otherwise ``None``, and the folder is free.

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
