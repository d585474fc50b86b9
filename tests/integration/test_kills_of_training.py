"""Training and fine-tuning killed at seeded moments: whatever was on disk, the resumed run ends as an unbroken one.

``python tests/integration/test_kills_of_training.py COUNT`` kills each of them COUNT times.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("accelerate", reason="pip install accelerate")

from tests.model_folders import save_encoder
from tests.unit.training.test_finetuning import cats_or_keys
from tests.unit.training.test_pretraining import CONFIGURATION, TEXT, recipe
from workbench.runs import Run
from workbench.training import pretrain
from workbench.training.finetuning import FineSettings, Method, finetune, load_task

Work = Callable[[Path], Run]  # into a folder, from what is there on


def training(place: Path) -> Work:
    """Pre-training in 12 steps with a checkpoint after every third."""
    (place / "corpus.txt").write_text(TEXT)
    (place / "decoder.yaml").write_text(CONFIGURATION.format(shape="decoder", segments=0, decoder="null"))
    settings = recipe(place, steps=12)
    settings = replace(settings, loop=replace(settings.loop, save_every=3))
    return lambda out: pretrain.train(settings, out, resume=out.exists(), device="cpu")


def fine_tuning(place: Path) -> Work:
    """LoRA with two seeds of three epochs."""
    encoder, rows = str(save_encoder(place / "encoder")), load_task(cats_or_keys(place))
    settings = FineSettings(
        method=Method.LORA, epochs=3, batch_size=31, lr=0.01, precision="float32", seeds=(0, 1), patience=2
    )
    return lambda out: finetune(encoder, rows, out, settings, resume=out.exists(), device="cpu")


def killed(work: Work, out: Path, seconds: float) -> bool:
    """Whether the work was killed before it ended."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        work(out)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def check_kills(work: Work, place: Path, count: int) -> tuple[int, int]:
    """Kill ``count`` times; how many died on the way, and how many resumed runs are equal to the unbroken one."""
    started = time.monotonic()
    whole = work(place / "whole")
    duration = time.monotonic() - started
    dead = equal = 0
    for number in range(count):
        out = place / f"out-{number}"
        dead += killed(work, out, float(np.random.default_rng(number).uniform(0, duration)))
        run = work(out)
        weights = [(folder / "model.safetensors").read_bytes() for folder in (out, place / "whole")]
        equal += run.results == whole.results and weights[0] == weights[1]
    return dead, equal


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
@pytest.mark.parametrize("kind", [training, fine_tuning])
def test_killed_work_goes_on_to_the_same_weights(
    kind: Callable[[Path], Work], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    _, equal = check_kills(kind(tmp_path), tmp_path, 4)
    assert equal == 4


if __name__ == "__main__":
    for kind in (training, fine_tuning):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["WORKBENCH_CACHE"] = str(Path(folder) / "cache")
            dead, equal = check_kills(kind(Path(folder)), Path(folder), int(sys.argv[1]))
            print(
                f"{kind.__name__}: {sys.argv[1]} kills, {dead} on the way, {equal} equal results", flush=True
            )
