"""A training run as a run folder: recipe, identity, loss curve, results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.errors import RunError
from workbench.estimate import Estimate
from workbench.models._files import content_hash
from workbench.runs import Run, RunFolder, RunRecord, write_atomically
from workbench.training.checkpoints import find_checkpoints
from workbench.training.corpora import Corpora
from workbench.training.progress import read_log
from workbench.training.settings import TrainSettings

__all__ = ["finish_run", "open_run"]


def open_run(
    out: Path, settings: TrainSettings, corpora: Corpora, model: Any, device: str, *, resume: bool
) -> RunFolder:
    """Make the folder ``out``, or open it again to go on.

    Raises :class:`~workbench.errors.RunError` if something is there already and ``resume`` was not asked.
    """
    if resume:
        folder = RunFolder(out, Run.open(out).record)
        folder.hold()
        return folder
    if out.exists() and any(out.iterdir()):
        hint = "go on with --resume" if find_checkpoints(out) else "remove it"
        raise RunError(f"{out} exists already; {hint}, or choose another --out")
    if out.is_dir():
        out.rmdir()
    info = corpora.train.info
    record = RunRecord.new(
        "train",
        recipe=settings.to_dict(),
        model={
            "name": settings.model.preset or settings.model.config or settings.model.model,
            "class": type(model).__name__,
            "parameters": sum(p.numel() for p in model.parameters()),
        },
        data={
            "corpus": {
                "name": Path(settings.data.corpus).name,
                "sha256": info.corpus_sha256,
                "tokens": info.tokens,
                "characters": info.characters,
            },
            "tokenizer": {"sha256": info.tokenizer_sha256},
        },
        seeds={"training": settings.optimisation.seed},
        device=device,
    )
    folder = RunFolder.create(out.parent, replace(record, id=out.name))
    write_atomically(out / "recipe.yaml", settings.to_yaml().encode())
    return folder


def finish_run(folder: RunFolder, results: Mapping[str, Estimate], throughput: Mapping[str, Any]) -> Run:
    """Store loss curve (as examples), results and throughput; the run is then complete."""
    rows = read_log(folder.path / "log.jsonl")
    done = folder.finished_ids()
    named = [{"id": f"row-{number:06d}", **row} for number, row in enumerate(rows)]
    columns = dict.fromkeys(key for row in named for key in row)
    folder.append([{key: row.get(key) for key in columns} for row in named if row["id"] not in done])
    digest = content_hash(folder.path.glob("*.safetensors"))
    folder.finish({"training": results}, throughput, {"weights_sha256": digest})
    return Run.open(folder.path)
