"""Pieces of Python from the documentation, each run in a process of its own.

``run_each(codes)`` starts one process that imports what every piece needs of other packages (seconds), and forks it for
each piece; nothing of this project is imported before a piece runs, so a piece that lacks an import fails here too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LIMIT = 300  # seconds of one piece


@dataclass(frozen=True)
class Outcome:
    """How a piece ended: its exit status, and the end of what it printed, errors included."""

    status: int
    output: str


def run_each(codes: Mapping[str, str], folder: Path) -> dict[str, Outcome]:
    """The outcome of each piece, run in an empty folder of its own below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
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
        timeout=_LIMIT * max(len(codes), 1),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))
    return {name: Outcome(**outcome) for name, outcome in found.items()}


def _main(asked: Path, folder: Path) -> None:
    # what all pieces import of other packages
    import matplotlib.figure  # noqa: F401
    import pandas  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch  # noqa: F401
    import transformers.models.auto.modeling_auto  # noqa: F401

    codes = json.loads(asked.read_text(encoding="utf-8"))
    outcomes = {}
    for number, (name, code) in enumerate(codes.items()):
        place = folder / str(number)
        place.mkdir()
        child = os.fork()
        if child == 0:
            _run(code, place)
        _, ended = os.waitpid(child, 0)
        output = (folder / f"{number}.txt").read_text(encoding="utf-8", errors="replace")
        outcomes[name] = {"status": os.waitstatus_to_exitcode(ended), "output": output[-3000:]}
    (folder / "outcomes.json").write_text(json.dumps(outcomes), encoding="utf-8")


def _run(code: str, place: Path) -> None:
    """In the forked process: run ``code`` in ``place`` and end."""
    import signal
    import traceback

    signal.alarm(_LIMIT)
    output = os.open(place.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(place)
    status = 1
    try:
        exec(compile(code, str(place / "example.py"), "exec"), {"__name__": "__main__"})
        status = 0
    except BaseException:  # whatever a piece raises is its outcome
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
