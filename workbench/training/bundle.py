"""A trained run as a bundled model: half-precision weights, tokenizer, and a card that says how it was made.

``python -m workbench.training.bundle RUN NAME "what it is"`` writes ``workbench/models/bundled/NAME``.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from workbench.errors import RunError
from workbench.models import load
from workbench.runs import Run
from workbench.training.checkpoints import save_model_folder
from workbench.training.progress import read_log

__all__ = ["bundle"]

LARGEST = 8 << 20  # bytes of weights
CURVE_POINTS = 100


def bundle(run_folder: Path, name: str, about: str, target: Path | None = None) -> Path:
    """Copy the model of a finished training run into the package's data; returns the folder.

    Raises :class:`~workbench.errors.RunError` if the run is not finished or the weights are over 8 MiB.
    """
    run = Run.open(run_folder)
    if run.record.verb != "train" or not run.complete:
        raise RunError(f"{run_folder} is no finished training run; finish it with: workbench train --resume")
    folder = target or Path(__file__).parents[1] / "models" / "bundled" / name
    loaded = load(str(run_folder), dtype="float32", device="cpu")
    size = 2 * loaded.num_parameters
    if size > LARGEST:
        raise RunError(f"{run_folder} has {size / 2**20:.1f} MiB of weights; bundled models have at most 8")
    save_model_folder(loaded.model.to(torch.float16), loaded.tokenizer, folder)
    (folder / "card.json").write_text(json.dumps(_card(run, name, about), indent=1) + "\n", encoding="utf-8")
    return folder


def _card(run: Run, name: str, about: str) -> dict[str, Any]:
    recipe = json.loads(json.dumps(run.record.recipe))
    for field in ("corpus", "validation"):
        if recipe["data"].get(field):
            recipe["data"][field] = Path(recipe["data"][field]).name
    used = run.throughput
    return {
        "name": name,
        "about": about,
        "command": f"workbench train --recipe workbench/training/recipes/{name}.yaml "
        "--corpus train.txt.xz --validation valid.txt --out DIR",
        "recipe": recipe,
        "seed": run.record.seeds["training"],
        "data": run.record.data,
        "hardware": _hardware(run),
        "hours": round(used["seconds"] / 3600, 3),
        "tokens_seen": int(used["tokens"]),
        "steps": _last_step(run),
        "results": {metric: e.to_dict() for metric, e in run.results["training"].items()},
        "loss_curve": _curve(run),
        "packages": run.record.packages,
    }


def _hardware(run: Run) -> str:
    device = run.record.device
    return str(device.get("name") or device.get("processor") or platform.processor() or device)


def _last_step(run: Run) -> int:
    rows = read_log(run.path / "log.jsonl")
    return int(rows[-1]["step"]) if rows else 0


def _curve(run: Run) -> list[list[float]]:
    """About a hundred pairs of step and training loss."""
    points = [
        [row["step"], round(row["loss"], 4)] for row in read_log(run.path / "log.jsonl") if "loss" in row
    ]
    every = max(1, len(points) // CURVE_POINTS)
    return points[::every]


if __name__ == "__main__":
    print(bundle(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
