"""Runs that are killed and go on, runs over two processes, and what a run leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("accelerate", reason="pip install accelerate")

from tests.helpers import run_command

SENTENCES = ["The keys to the cabinet are on the table. ", "The cat sat on the mat. ", "A dog ran home! "]
TINY = """
model_type: workbench-decoder
hidden_size: 16
attention: {heads: 2, bias: false, output_bias: false}
positions: {kind: rotary, max_length: 32}
norm: {kind: rms_norm, placement: pre}
feed_forward: {activation: swiglu, size: 32, bias: false}
depth: {layers: 1}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus and a configuration; the cache lies there too."""
    folder = tmp_path_factory.mktemp("train")
    text = "".join(SENTENCES[(i * i) % 3] + f"Number {i % 17} came. " for i in range(600))
    (folder / "corpus.txt").write_text(text)
    (folder / "tiny.yaml").write_text(TINY)
    return folder


def arguments(place: Path, out: str, *more: str) -> list[str]:
    return [
        *("train", "--config", str(place / "tiny.yaml"), "--corpus", str(place / "corpus.txt")),
        *("--tokenizer", "bytes", "--length", "16", "--batch-size", "4", "--steps", "24", "--lr", "0.01"),
        *("--precision", "float32", "--log-every", "1", "--save-every", "4", "--device", "cpu"),
        *("--report-to", "none", "--out", str(place / out), *more),
    ]


def environment(place: Path) -> dict[str, str]:
    return {**os.environ, "WORKBENCH_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}


def run_here(place: Path, *words: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_CACHE", environment(place)["WORKBENCH_CACHE"])
        done = run_command(*words)
    assert done.returncode == 0, done.stderr[-3000:]


def run_apart(place: Path, *command: str) -> None:
    done = subprocess.run(command, env=environment(place), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    """A run that nothing interrupted."""
    run_here(place, *arguments(place, "whole", "--keep-steps", "0,1,2,…"))
    return place / "whole"


def losses(folder: Path) -> dict[int, float]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if "loss" in row}


def test_a_killed_run_ends_with_the_same_losses(place: Path, whole: Path) -> None:
    """The steps after the kill are done again from the last whole checkpoint."""
    command = [sys.executable, "-m", "workbench", *arguments(place, "killed")]
    process = subprocess.Popen(
        command, env=environment(place), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while not (place / "killed" / "checkpoint-8" / "complete.json").is_file():
        assert process.poll() is None, "ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run_here(place, "train", "--out", str(place / "killed"), "--resume")
    assert losses(place / "killed") == pytest.approx(losses(whole), abs=1e-6)
    assert set(losses(whole)) == set(range(1, 25))


def test_two_processes_give_the_losses_of_one(place: Path, whole: Path) -> None:
    """Each process takes half of the rows of every step."""
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29517",
    ]
    run_apart(place, *launcher, "-m", "workbench", *arguments(place, "two"))
    assert losses(place / "two") == pytest.approx(losses(whole), abs=1e-4)


def test_the_result_opens_and_says_how_good_it_is(place: Path, whole: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    import workbench
    from workbench.runs import Run

    loaded = workbench.load(str(whole), dtype="float32", device="cpu")
    plain = AutoModelForCausalLM.from_pretrained(whole)
    ids = loaded.tokenizer("The cat", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        assert torch.equal(loaded.model(ids).logits, plain(ids).logits)
    stored = Run.open(whole)
    assert stored.complete
    # 386 ids of which nearly all never occur: chance is log(386) = 5.96 nats
    assert stored.results["training"]["loss"].value < 4.0
    assert len(stored.examples()) == 24
    kept = sorted(int(p.name.removeprefix("step-")) for p in whole.glob("step-*"))
    assert kept == [0, 1, 2, 4, 8, 16, 24]
    first = workbench.load(f"{whole}@step-0", dtype="float32", device="cpu")
    with torch.inference_mode():
        assert not torch.equal(first.model(ids).logits, plain(ids).logits)
