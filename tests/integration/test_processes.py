"""A check over two processes stores what one process stores; ``evaluate`` has the same runner."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import run_command
from tests.model_folders import save_llama
from workbench.runs import Run


def stored(model: Path, out: Path, *launcher: str) -> Run:
    asked = ("--set", "pairs_builtin", "--limit", "30", "--no-doctor", "--json")
    arguments = ["check", str(model), *asked, "--out", str(out)]
    if launcher:
        command = [sys.executable, *launcher, "-m", "workbench", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    else:
        done = run_command(*arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 1  # the first process alone prints
    return Run.open(json.loads(lines[0])["run"])


def test_two_processes_store_the_same_numbers_in_one_folder(tmp_path):
    model = save_llama(tmp_path / "model", positions=512)
    one = stored(model, tmp_path / "one")
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29741")
    two = stored(model, tmp_path / "two", *torchrun)
    assert len(list((tmp_path / "two").glob("*/run.json"))) == 1
    first, second = (run.examples().sort_values("id") for run in (one, two))
    assert first["id"].tolist() == second["id"].tolist()
    assert first.correct.tolist() == second.correct.tolist()
    # Batches differ, so scores agree to rounding.
    assert np.allclose(first.margin, second.margin, atol=1e-4)
    assert one.results.keys() == two.results.keys()
    for task, metrics in one.results.items():
        for metric, estimate in metrics.items():
            assert two.results[task][metric].value == pytest.approx(estimate.value, rel=1e-5)
    assert two.throughput["tokens"] >= one.throughput["tokens"]  # of both; padding included
