"""Pieces of Python from the documentation, each run in a process of its own.

``run_each(codes)`` starts one process that imports what pieces typically need (seconds), and forks it for each piece,
whose names are its own: a piece that lacks an import fails here too.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LIMIT = 300  # seconds of one piece
_TYPICAL = """
import sys, workbench, pathlib
import workbench.figures.static, workbench.figures.lens
for name in workbench.__all__:
    getattr(workbench, name)
workbench.surprisal("novels-decoder", "a text").figure().html
pathlib.Path({found!r}).write_text("\\n".join(sys.modules))
"""


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
        timeout=_LIMIT * max(len(codes), 1),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))
    return {name: Outcome(**outcome) for name, outcome in found.items()}


def _main(asked: Path, folder: Path) -> None:
    for name in _typical_modules(folder):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    codes = json.loads(asked.read_text(encoding="utf-8"))
    outcomes = {}
    for number, (name, code) in enumerate(codes.items()):
        place, started = folder / str(number), time.monotonic()
        child = os.fork()
        if child == 0:
            _run(code, place)
        _, ended = os.waitpid(child, 0)
        output = (folder / f"{number}.txt").read_text(encoding="utf-8", errors="replace")
        outcomes[name] = {
            "status": os.waitstatus_to_exitcode(ended),
            "output": output[-3000:],
            "seconds": time.monotonic() - started,
        }
    (folder / "outcomes.json").write_text(json.dumps(outcomes), encoding="utf-8")


def _typical_modules(folder: Path) -> list[str]:
    """Modules that the pieces will import, found by a process that ends before they run."""
    found = folder / "modules.txt"
    child = os.fork()
    if child == 0:
        (folder / "modules").mkdir()
        _run(_TYPICAL.format(found=str(found)), folder / "modules")
    os.waitpid(child, 0)
    names = found.read_text(encoding="utf-8").split()
    return [name for name in names if name.partition(".")[0] not in ("tests", "__main__", "__mp_main__")]


def _run(code: str, place: Path) -> None:
    """In the forked process: run ``code`` in ``place`` and end."""
    import signal
    import traceback

    signal.alarm(_LIMIT)
    output = os.open(place.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(place)
    sys.path.insert(0, str(place))  # as of a script that lies there
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
