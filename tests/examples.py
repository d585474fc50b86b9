"""Pieces of Python from the documentation, each run in a process of its own.

``run_each(codes)`` starts one process that imports what pieces typically need, and forks it for each piece, whose names
are its own: a piece that lacks an import fails here too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))
from forks import LIMIT, run  # noqa: E402


@dataclass(frozen=True)
class Outcome:
    """How a piece ended: its exit status, and the end of what it printed, errors included."""

    status: int
    output: str
    seconds: float


def run_each(
    codes: Mapping[str, str], folder: Path, files: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Outcome]:
    """The outcome of each piece, run in a folder of its own below ``folder`` that holds its ``files``."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(codes):
        (folder / str(number)).mkdir()
        for file, text in (files or {}).get(name, {}).items():
            (folder / str(number) / file).write_text(text, encoding="utf-8")
    asked = folder / "codes.json"
    asked.write_text(json.dumps(dict(codes)), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "MPLBACKEND": "agg",
    }
    environment.pop("WORKBENCH_RUNS", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.examples", str(asked), str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT * max(len(codes), 1),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))
    return {name: Outcome(**outcome) for name, outcome in found.items()}


def _main(codes: Path, folder: Path) -> None:
    outcomes = {}
    for number, (name, code) in enumerate(json.loads(codes.read_text(encoding="utf-8")).items()):
        started = time.monotonic()
        done = run(["python", "-c", code], folder / str(number))
        outcomes[name] = {
            "status": done.returncode,
            "output": (done.stdout + done.stderr)[-3000:],
            "seconds": time.monotonic() - started,
        }
    (folder / "outcomes.json").write_text(json.dumps(outcomes), encoding="utf-8")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
