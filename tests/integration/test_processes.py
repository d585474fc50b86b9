"""One evaluation over two processes stores what one process stores."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.model_folders import save_llama
from workbench.runs import Run


def evaluate(model: Path, out: Path, *launcher: str) -> Run:
    arguments = [
        str(model),
        "--task",
        "lambada_sample",
        "--limit",
        "15",
        "--no-doctor",
        "--json",
        "--out",
        str(out),
    ]
    command = [sys.executable, *launcher, "-m", "workbench", "evaluate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 1  # the first process alone prints
    return Run.open(json.loads(lines[0])["run"])


def test_two_processes_store_the_same_numbers_in_one_folder(tmp_path):
    model = save_llama(tmp_path / "model", positions=512)
    one = evaluate(model, tmp_path / "one")
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29741")
    two = evaluate(model, tmp_path / "two", *torchrun)
    assert len(list((tmp_path / "two").glob("*/run.json"))) == 1
    first, second = one.examples(), two.examples()
    assert first["id"].tolist() == second["id"].tolist()
    assert first["greedy"].tolist() == second["greedy"].tolist()
    # Batches differ, so scores agree to rounding.
    assert np.allclose(first["log_probability"], second["log_probability"], atol=1e-4)
    for metric, estimate in one.results["lambada_sample"].items():
        assert two.results["lambada_sample"][metric].value == pytest.approx(estimate.value, rel=1e-5)
    assert two.throughput["tokens"] >= one.throughput["tokens"]  # of both; padding included
