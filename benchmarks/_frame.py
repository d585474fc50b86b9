"""What the benchmarks share: ours and the peer in alternation, medians, ratios with their spread, the machine."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Result:
    """One comparison. ``ratio`` is ours over the peer's (above 1: ours is more); ``met`` is judged on it."""

    name: str
    ours: float
    peer: float | None
    unit: str
    ratio: float | None
    goal: str
    met: bool
    spread: tuple[float, float] | None = None


def parser(description: str) -> argparse.ArgumentParser:
    """Every benchmark takes ``--json FILE`` and ``--repeats N``."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--json", type=Path, help="write the results as a JSON list")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument(
        "--cpu-time", action="store_true", help="count processor time: for a busy machine, with one thread"
    )
    options.add_argument("--data-dir", type=Path, default=REPOSITORY.parent / "shared" / "data")
    return options


def alternate(
    ours: Callable[[], Any],
    peer: Callable[[], Any],
    repeats: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[float], list[float]]:
    """Seconds of each run, ours and the peer's in turn, so that a slow spell of the machine hits both.

    ``time.process_time`` as ``clock`` counts the seconds that the processor worked for this process; with more
    threads than one it counts their waiting too.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(-warmup, repeats):
        for arm, times in zip((ours, peer), seconds, strict=True):
            started = clock()
            arm()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn >= 0:
                times.append(clock() - started)
    return seconds


def rate_result(
    name: str, work: float, unit: str, ours: list[float], peer: list[float], at_least: float
) -> Result:
    """Compare rates: ``work`` per second of each arm, medians; the spread is over the paired repeats."""
    ratios = sorted(p / o for o, p in zip(ours, peer, strict=True))
    rate, peer_rate = work / statistics.median(ours), work / statistics.median(peer)
    ratio = rate / peer_rate
    spread = (ratios[0], ratios[-1])
    return Result(name, rate, peer_rate, unit, ratio, f">= {at_least}", ratio >= at_least, spread)


def in_subprocess(script: str, *arguments: str) -> dict[str, Any]:
    """Run ``script`` again with ``arguments``; it prints one JSON object (used to measure memory alone)."""
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def reset_peak() -> None:
    """Forget the highest resident memory so far (Linux), so that what loading took does not hide the rest."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_mib() -> float:
    """Highest resident memory of this process since :func:`reset_peak`, MiB (Linux)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def matmul_rate(
    dtype: torch.dtype,
    rows: int = 2048,
    width: int = 2048,
    seconds: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Measured floating-point operations per second of a matrix product in ``dtype``."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (
        torch.randn(rows, width, device=device, dtype=dtype),
        torch.randn(width, width, device=device, dtype=dtype),
    )
    a @ b
    count, started = 0, clock()
    while clock() - started < seconds:
        a @ b
        if device == "cuda":
            torch.cuda.synchronize()
        count += 1
    return 2 * rows * width * width * count / (clock() - started)


def machine(*packages: str) -> str:
    """Processor or card, threads, and the versions of torch, transformers and ``packages``."""
    if torch.cuda.is_available():
        processor = torch.cuda.get_device_name()
    else:
        cpuinfo = Path("/proc/cpuinfo")
        names = (
            [
                line.split(":", 1)[1].strip()
                for line in cpuinfo.read_text().splitlines()
                if "model name" in line
            ]
            if cpuinfo.is_file()
            else []
        )
        processor = f"{names[0] if names else platform.processor()}, {torch.get_num_threads()} threads"
    versions = ", ".join(f"{p} {version(p)}" for p in ("torch", "transformers", *packages))
    return f"{processor}; Python {platform.python_version()}, {versions}"


def report(results: list[Result], where: str, json_file: Path | None) -> None:
    """Print one line a result and the machine; write JSON where asked."""
    print(f"\nmachine: {where}")
    for r in results:
        verdict = "met   " if r.met else "MISSED"
        peer = "" if r.peer is None else f"  peer {r.peer:,.4g}"
        ratio = "" if r.ratio is None else f"  ratio {r.ratio:.2f}"
        spread = "" if r.spread is None else f" ({r.spread[0]:.2f} to {r.spread[1]:.2f})"
        print(f"{verdict}  {r.name}: ours {r.ours:,.4g}{peer} {r.unit}{ratio}{spread}  goal {r.goal}")
    if json_file:
        rows = [
            {
                "name": r.name,
                "ours": r.ours,
                "peer": r.peer,
                "unit": r.unit,
                "ratio": r.ratio,
                "goal": r.goal,
                "met": r.met,
            }
            for r in results
        ]
        json_file.write_text(json.dumps(rows, indent=1))
