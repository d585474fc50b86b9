"""Training that is stopped: it goes on to the same result, and what it leaves is not in the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.model_folders import save_encoder
from tests.unit.training.test_finetuning import cats_or_keys
from tests.unit.training.test_pretraining import place, recipe
from workbench.errors import RunError
from workbench.training import pretrain
from workbench.training.finetuning import FineSettings, Method, finetune, load_task
from workbench.training.finetuning._trainer import HeadTrainer
from workbench.training.loop import WorkbenchTrainer
from workbench.training.settings import TrainSettings

__all__ = ["place"]  # the fixture


class Killed(BaseException):
    """What nobody catches, as nothing catches SIGKILL."""


def killed_at(monkeypatch: pytest.MonkeyPatch, trainer: Any, count: int) -> None:
    """The ``count``-th training step of this process does not return."""
    real: Callable[..., Any] = trainer.training_step
    steps = iter(range(1, 10**6))

    def step(self: Any, *given: Any, **more: Any) -> Any:
        if next(steps) == count:
            raise Killed
        return real(self, *given, **more)

    monkeypatch.setattr(trainer, "training_step", step)


def same_weights(first: Path, second: Path) -> bool:
    names = sorted(p.name for p in first.glob("*.safetensors"))
    assert names == sorted(p.name for p in second.glob("*.safetensors")) != []
    pairs = [(load_file(first / name), load_file(second / name)) for name in names]
    return all(set(a) == set(b) and all(torch.equal(a[key], b[key]) for key in a) for a, b in pairs)


# 114 rows, 103 to train on, 31 a step: 4 steps an epoch, 2 epochs, 2 seeds
@pytest.mark.parametrize(
    ("method", "kill"),
    [("full", 2), ("full", 6), ("full", 11), ("lora", 6), ("adapter", 13), ("head", 6), ("prompt", 7)],
)
def test_fine_tuning_goes_on_to_the_same_weights(
    method: str, kill: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, rows = str(save_encoder(tmp_path / "encoder")), load_task(cats_or_keys(tmp_path))
    settings = FineSettings(
        method=Method(method),
        epochs=2,
        batch_size=31,
        lr=0.01,
        virtual_tokens=3,
        precision="float32",
        seeds=(3, 4),
        patience=2,
    )
    whole = finetune(encoder, rows, tmp_path / "whole", settings, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, HeadTrainer, kill)
        with pytest.raises(Killed):
            finetune(encoder, rows, tmp_path / "out", settings, device="cpu")
    run = finetune(encoder, rows, tmp_path / "out", settings, resume=True, device="cpu")
    assert run.results == whole.results
    assert run.notes == whole.notes
    assert same_weights(tmp_path / "out", tmp_path / "whole")
    assert run.examples().equals(whole.examples())
    assert sorted(p.name for p in run.path.iterdir()) == sorted(p.name for p in whole.path.iterdir())
    again = finetune(encoder, rows, tmp_path / "out", settings, resume=True, device="cpu")
    assert again.results == run.results


def test_early_stopping_is_remembered(tmp_path: Path) -> None:
    """Killed after the last epoch, before the result: no further epoch is trained."""
    encoder, rows = str(save_encoder(tmp_path / "encoder")), load_task(cats_or_keys(tmp_path))
    settings = FineSettings(epochs=9, batch_size=31, lr=0.02, precision="float32", patience=1)
    whole = finetune(encoder, rows, tmp_path / "whole", settings, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("workbench.training.finetuning.finetune"), "save_model_folder", _killed)
        with pytest.raises(Killed):
            finetune(encoder, rows, tmp_path / "out", settings, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, HeadTrainer, 1)  # any step at all
        run = finetune(encoder, rows, tmp_path / "out", settings, resume=True, device="cpu")
    assert run.results == whole.results
    assert same_weights(tmp_path / "out", tmp_path / "whole")


def _killed(*_: Any) -> None:
    raise Killed


def test_a_stopped_fine_tuning_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, rows = str(save_encoder(tmp_path / "encoder")), load_task(cats_or_keys(tmp_path))
    settings = FineSettings(epochs=2, batch_size=31, precision="float32")
    out = tmp_path / "out"
    for kill, message in ((2, None), (5, "an unfinished run; go on with --resume")):
        with pytest.MonkeyPatch.context() as patch:
            killed_at(patch, HeadTrainer, kill)
            with pytest.raises(Killed):
                finetune(encoder, rows, out, settings, device="cpu")
        if message:
            with pytest.raises(RunError, match=message):
                finetune(encoder, rows, out, settings, device="cpu")
    with pytest.raises(RunError, match=r"cannot resume .*: recipe\.lr was None and is now 0\.5"):
        finetune(encoder, rows, out, replace(settings, lr=0.5), resume=True, device="cpu")
    assert finetune(encoder, rows, out, settings, resume=True, device="cpu").complete
    with pytest.raises(RunError, match="exists already and is finished"):
        finetune(encoder, rows, out, settings, device="cpu")


def losses(folder: Path) -> dict[int, float]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if "loss" in row}


def saving(place: Path) -> TrainSettings:
    settings = recipe(place, steps=6)
    return replace(settings, loop=replace(settings.loop, save_every=2))


def stopped(settings: TrainSettings, out: Path, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, WorkbenchTrainer, step)
        with pytest.raises(Killed):
            pretrain.train(settings, out, device="cpu")


@pytest.mark.parametrize("step", [1, 2, 4])
def test_pre_training_goes_on_to_the_same_weights(step: int, place: Path) -> None:
    """Stopped before the first checkpoint too, which is after step 2."""
    settings = saving(place)
    pretrain.train(settings, place / "whole", device="cpu")
    stopped(settings, place / "out", step)
    pretrain.train(settings, place / "out", resume=True, device="cpu")
    assert same_weights(place / "out", place / "whole")
    assert losses(place / "out") == losses(place / "whole")


def test_a_stopped_training_is_in_the_way_only_if_there_is_something_to_go_on_from(place: Path) -> None:
    settings, out = saving(place), place / "out"
    stopped(settings, out, 2)
    stopped(settings, out, 4)  # started again without a word; now there is a checkpoint
    with pytest.raises(RunError, match="an unfinished run; go on with --resume"):
        pretrain.train(settings, out, device="cpu")
    other = replace(settings, optimisation=replace(settings.optimisation, lr=0.5))
    with pytest.raises(RunError, match="from another configuration"):
        pretrain.train(other, out, resume=True, device="cpu")


def test_a_stopped_run_is_kept_where_something_else_lies_in_it(place: Path) -> None:
    settings, out = saving(place), place / "out"
    stopped(settings, out, 2)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"an unfinished run with notes\.txt; go on with --resume"):
        pretrain.train(settings, out, device="cpu")
    assert (out / "notes.txt").read_text() == "mine"
    other = replace(settings, optimisation=replace(settings.optimisation, lr=0.5))
    with pytest.raises(RunError, match="was started with another recipe"):
        pretrain.train(other, out, resume=True, device="cpu")
    assert pretrain.train(settings, out, resume=True, device="cpu").complete
