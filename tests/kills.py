"""Commands killed at random moments and resumed: the result is the unbroken one.

A few seeded kills run in the test suite (``tests/integration/test_kills.py``). More are made by hand::

    python -m tests.kills --kills 60 --seed 0

A further command is one more :class:`Work` in :data:`WORK`.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.runs import Run

__all__ = ["WORK", "Work", "kill_and_resume", "unbroken"]

_LIMIT = 600.0  # seconds that a command may take


@dataclass(frozen=True)
class Work:
    """A command that makes one run below ``out``, and the one that goes on with it; ``RUN`` stands for its folder."""

    name: str
    start: tuple[str, ...]
    resume: tuple[str, ...]


_EVALUATE = ("--no-doctor", "--batch-tokens", "256")
_PROBE = ("--limit", "40", "--seeds", "1", "--strengths", "0.1,1", "--no-doctor")

WORK = (
    Work(
        "evaluate",
        (
            "evaluate",
            "novels-decoder",
            "--task",
            "lambada_sample",
            "--dtype",
            "float32",
            "--out",
            "out",
            *_EVALUATE,
        ),
        ("evaluate", "--resume", "RUN", *_EVALUATE),
    ),
    Work(
        "check",
        ("check", "novels-decoder", "--suite", "sentiment", "--dtype", "float32", "--out", "out", *_EVALUATE),
        ("check", "--resume", "RUN", *_EVALUATE),
    ),
    Work(
        "probe",
        ("probe", "novels-encoder", "--task", "number", "--dtype", "float32", "--out", "out", *_PROBE),
        ("probe", "--resume", "RUN", *_PROBE),
    ),
)

# One process imports everything once; each command is a copy of it, as if started with its imports done.
_processes = multiprocessing.get_context("forkserver")
_PRELOADED = ["workbench.models.auto", "workbench.evaluate", "challenge_sets.checking", "probes.run"]


@dataclass(frozen=True)
class _Unbroken:
    """What a command gives that nobody kills, and how long it takes before and after its run's folder is there."""

    outcome: str
    seconds: tuple[float, float]


def _command(arguments: tuple[str, ...], folder: str) -> None:
    """Run ``workbench ARGUMENTS`` in ``folder``; what it says goes to a file. Every batch is stored at once."""
    import workbench.runs._folder
    from workbench.cli import main

    os.chdir(folder)
    os.environ["WORKBENCH_CACHE"] = str(Path(folder) / "cache")
    said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(said, stream.fileno())
    workbench.runs._folder.SECONDS_PER_CHUNK = 0.0
    main(list(arguments))


def _start(arguments: tuple[str, ...], folder: Path) -> Any:
    _processes.set_forkserver_preload(_PRELOADED)
    process = _processes.Process(target=_command, args=(arguments, str(folder)))
    process.start()
    return process


def _finish(process: Any, folder: Path) -> None:
    process.join(_LIMIT)
    said = folder / "said.txt"
    text = said.read_text(errors="replace")[-2000:] if said.is_file() else ""
    assert process.exitcode == 0, f"exit code {process.exitcode}: {text}"


def _run_folder(folder: Path) -> Path | None:
    found = [*folder.glob("out/run.json"), *folder.glob("out/*/run.json")]
    return found[0].parent if found else None


def _wait_for_folder(process: Any, folder: Path) -> None:
    while _run_folder(folder) is None and process.is_alive():
        time.sleep(0.002)


def _outcome(folder: Path) -> str:
    """All values of the run, none of its times."""
    path = _run_folder(folder)
    assert path is not None
    run = Run.open(path)
    assert run.complete
    left = [f.name for f in path.rglob("*") if f.name.startswith(".") or f.name in ("chunks", "parts")]
    assert not left, f"left behind: {left}"
    results = {t: {m: e.to_dict() for m, e in metrics.items()} for t, metrics in run.results.items()}
    arrays = {name: array.tolist() for name, array in sorted(run.arrays().items())}
    return repr((results, run.notes, run.examples().to_dict("list"), arrays))


def unbroken(work: Work, folder: Path) -> _Unbroken:
    """The outcome and the times of ``work`` in the empty ``folder``, left alone."""
    _finish(_start(("--version",), folder), folder)  # the first command waits for the imports
    started = time.monotonic()
    process = _start(work.start, folder)
    _wait_for_folder(process, folder)
    there = time.monotonic()
    _finish(process, folder)
    return _Unbroken(_outcome(folder), (there - started, time.monotonic() - there))


def kill_and_resume(work: Work, folder: Path, whole: _Unbroken, draw: random.Random) -> str:
    """Kill ``work`` at a random moment, in one case of six before its run's folder is there; go on; compare.

    Returns what the kill met: "no folder", "unfinished run" or "finished run".
    """
    process = _start(work.start, folder)
    early = draw.random() < 1 / 6
    if not early:
        _wait_for_folder(process, folder)
    time.sleep(draw.random() * whole.seconds[0 if early else 1])
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join(_LIMIT)
    path = _run_folder(folder)
    met = "no folder" if path is None else "finished run" if Run.open(path).complete else "unfinished run"
    again = work.start if path is None else tuple(str(path) if a == "RUN" else a for a in work.resume)
    _finish(_start(again, folder), folder)
    assert _outcome(folder) == whole.outcome, f"{work.name}: another result after a kill that met {met}"
    return met


def main(arguments: list[str] | None = None) -> None:
    """Make ``--kills`` kills, spread over the commands, and print what they met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    draw = random.Random(options.seed)
    for work in WORK:
        met: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as place:
            whole = unbroken(work, Path(tempfile.mkdtemp(dir=place)))
            for _ in range(math.ceil(options.kills / len(WORK))):
                met[kill_and_resume(work, Path(tempfile.mkdtemp(dir=place)), whole, draw)] += 1
        print(f"{work.name}: {met.total()} kills, {dict(met)}; all equal the unbroken run", flush=True)


if __name__ == "__main__":
    main()
