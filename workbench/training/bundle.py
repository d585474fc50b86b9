"""A finished run as a bundled model: half-precision weights, tokenizer, and a card that says how it was made.

``python -m workbench.training.bundle RUN NAME "what it is"`` writes ``workbench/models/bundled/NAME``. With
``--held-out NAME=FILE`` a fine-tuned model is also judged, as it ships, on tables that it was not trained on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from workbench.errors import ConfigError, RunError
from workbench.models import load
from workbench.runs import Run, write_atomically
from workbench.terminal import counted, say
from workbench.training.cards import judge, to_dicts
from workbench.training.checkpoints import save_model_folder
from workbench.training.finetuning.settings import FineSettings
from workbench.training.finetuning.tasks import GLUE
from workbench.training.progress import read_log

__all__ = ["bundle"]

MOST_WEIGHT_BYTES = 8_000_000  # bytes of weights
CURVE_POINTS = 100


def bundle(
    run_folder: Path,
    name: str,
    about: str,
    target: Path | None = None,
    *,
    licence: str,
    held_out: Mapping[str, Path] | None = None,
    note: str = "",
) -> Path:
    """Copy the model of a finished training or fine-tuning run into the package's data; returns the folder.

    ``licence`` is that of the data it was trained on. ``held_out`` names tables to judge a fine-tuned model on;
    ``note`` is added to the hardware. Raises :class:`~workbench.errors.RunError` if the run is not finished or the
    weights are over 8 MB.
    """
    run = Run.open(run_folder)
    if run.record.verb not in ("train", "finetune") or not run.complete:
        raise RunError(f"{run_folder} is no finished training run; finish it with: workbench train --resume")
    folder = target or Path(__file__).parents[1] / "models" / "bundled" / name
    loaded = load(str(run_folder), dtype="float32", device="cpu")
    size = 2 * loaded.num_parameters
    if size > MOST_WEIGHT_BYTES:
        raise RunError(f"{run_folder} has {size / 1e6:.1f} MB of weights; bundled models have at most 8")
    save_model_folder(loaded.model.to(torch.float16), loaded.tokenizer, folder)
    _compact(folder / "tokenizer.json")
    card = _card(run, name, about, note)
    card["data_licence"] = licence
    card["held_out"] = {
        called: to_dicts(judge(folder, run.record.recipe, path)) for called, path in (held_out or {}).items()
    }
    write_atomically(folder / "card.json", (json.dumps(card, indent=1) + "\n").encode())
    for file in folder.iterdir():
        file.chmod(0o644)  # data of a package is for everyone to read
    return folder


def _compact(file: Path) -> None:
    """The same JSON without indentation: a third of the bytes."""
    content = json.loads(file.read_text(encoding="utf-8"))
    write_atomically(file, json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


def _card(run: Run, name: str, about: str, note: str) -> dict[str, Any]:
    used, results = run.throughput, next(iter(run.results.values()))
    return {
        "name": name,
        "about": about,
        "command": _train_command(run, name) if run.record.verb == "train" else _finetune_command(run),
        "recipe": _recipe(run),
        "model": {**run.record.model, "name": Path(str(run.record.model["name"])).name},
        "seed": run.record.seeds["training"],
        "data": run.record.data,
        "hardware": ", ".join(filter(None, (_hardware(run), note))),
        "hours": round(used["seconds"] / 3600, 3),
        "tokens_seen": int(used["tokens"]),
        "steps": _last_step(run),
        "results": to_dicts(results),
        "loss_curve": _curve(run),
        "packages": run.record.packages,
    }


def _recipe(run: Run) -> dict[str, Any]:
    """The recipe without the folders of the machine that it ran on."""
    recipe: dict[str, Any] = json.loads(json.dumps(run.record.recipe))
    data = recipe.get("data", {})
    for field in ("corpus", "validation"):
        if data.get(field):
            data[field] = Path(data[field]).name
    if recipe.get("model", {}).get("model"):
        recipe["model"]["model"] = "FIRST"
    return recipe


def _train_command(run: Run, name: str, out: str = "DIR") -> str:
    """The command; of a model that was trained further, first that of the run before."""
    recipe, data = run.record.recipe, _recipe(run)["data"]
    minutes, before = recipe["loop"]["minutes"], recipe["model"]["model"]
    further = f" --minutes {minutes:g}" if minutes else ""
    if before is not None:
        chosen = recipe["optimisation"]
        numbers = " ".join(f"--{field} {chosen[field]:g}" for field in ("steps", "lr", "seed"))
        further += f" --model FIRST {numbers}"
    command = (
        f"workbench train --recipe workbench/training/recipes/{name}.yaml "
        f"--corpus {data['corpus']} --validation {data['validation']}{further} --out {out}"
    )
    return (
        command if before is None else f"{_train_command(Run.open(Path(before)), name, 'FIRST')} && {command}"
    )


def _finetune_command(run: Run) -> str:
    """The command with every option that is not at its default; a table is named without its folder."""
    recipe = run.record.recipe
    task = str(recipe["task"])
    words = ["workbench", "finetune", str(run.record.model["name"]), "--task"]
    if task in GLUE:
        words.append(task)
    else:
        named = {name: recipe.get(name) for name in ("text", "pair", "label", "rationale")}
        columns = {name: column for name, column in named.items() if column not in _USUAL}
        words += [f"{task}.jsonl", *(w for n, c in columns.items() for w in (f"--{n}-column", f"'{c}'"))]
    if recipe.get("validation"):
        words += ["--validation", str(recipe["validation"])]
    for field in fields(FineSettings):
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        value = recipe.get(field.name, default)
        if value != default:
            shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            words += [f"--{field.name.replace('_', '-')}", shown]
    return " ".join([*words, "--out DIR"])


_USUAL = ("text", "label", None)


def _hardware(run: Run) -> str:
    device = run.record.device
    name = str(device.get("processor") or device.get("name") or "unknown device")
    threads = device.get("threads")
    return f"{name}, {counted(threads, 'thread')}" if threads else name


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


def _named_files(texts: list[str]) -> dict[str, Path]:
    found = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator:
            raise ConfigError(f"cannot read {text!r}; write --held-out NAME=FILE")
        found[name] = Path(path)
    return found


def _main() -> None:
    parser = argparse.ArgumentParser(description="Bundle the model of a finished run.")
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("about")
    parser.add_argument("--licence", required=True, help="of the data that it was trained on")
    parser.add_argument("--held-out", action="append", default=[], help="NAME=FILE, repeatable")
    parser.add_argument("--note", default="", help="added to the hardware")
    parser.add_argument("--target", type=Path)
    given = parser.parse_args()
    held_out = _named_files(given.held_out)
    more = {"licence": given.licence, "held_out": held_out, "note": given.note}
    say(bundle(given.run, given.name, given.about, given.target, **more))


if __name__ == "__main__":
    _main()
