"""Run generated commands in this process and judge what they print: ``python -m tests.fuzzing.run 10000``."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

__all__ = ["Outcome", "harmful", "quiet_world", "run_command"]

# Unicode's classes of characters that turn the direction of a line (UAX 9, table 4).
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_SECONDS = 120  # a command that is still at work then is interrupted, as by Ctrl-C


@dataclass(frozen=True)
class Outcome:
    """What a command did; ``faults`` is empty where it behaved."""

    words: tuple[str, ...]
    code: int
    output: str
    errors: str
    faults: tuple[str, ...]
    seconds: float


def harmful(text: str) -> list[str]:
    """The characters of ``text`` that a terminal obeys: controls but line breaks, surrogates, turns of direction."""
    return [
        c
        for c in text
        if c != "\n" and (unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in _TURNING)
    ]


class _Stream(io.StringIO):
    """Takes any text, as a terminal's encoding would not."""

    encoding = "utf-8"


def run_command(words: Sequence[str], seconds: int = _SECONDS) -> Outcome:
    """One command through the program's own entry point, with its exit code and all it printed."""
    from workbench.cli import main

    out, err, code, trace = _Stream(), _Stream(), 0, ""
    begin = time.monotonic()
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(b""))),
    ):
        signal.alarm(seconds)
        try:
            main(list(words))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except KeyboardInterrupt:
            code = 130
        except BaseException:
            code, trace = -1, traceback.format_exc()
        finally:
            signal.alarm(0)
    faults = tuple(_faults(code, out.getvalue(), err.getvalue(), trace))
    return Outcome(tuple(words), code, out.getvalue(), err.getvalue(), faults, time.monotonic() - begin)


def _faults(code: int, out: str, err: str, trace: str) -> Iterator[str]:
    if trace:
        yield f"traceback: {trace}"
        return
    if harmful(out) or harmful(err):
        yield f"printed {sorted(set(harmful(out) + harmful(err)))!r}"
    if code not in (0, 1, 2, 130):
        yield f"exit code {code}"
    lines = [line for line in err.splitlines() if line.startswith("workbench: ")]
    if code == 2 and (len(lines) != 1 or not err.endswith(lines[0] + "\n")):
        yield f"{len(lines)} lines of error: {err[:300]!r}"
    if "Traceback" in err and _interrupt.__name__ not in err:  # but where the time limit hit a callback
        yield f"a traceback is printed: {err[-600:]}"


@contextmanager
def quiet_world(root: Path) -> Iterator[Any]:
    """The world below ``root``, as the current folder, with nothing that waits: no hub, no server, no demo."""
    from tests.fuzzing.world import make_world
    from workbench.models import presets

    here, environment = (
        Path.cwd(),
        {"WORKBENCH_RUNS": str(root / "runs"), "WORKBENCH_CACHE": str(root / "cache")},
    )
    environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(root / "hub")}
    patches = [
        mock.patch.dict(os.environ, environment),
        mock.patch("huggingface_hub.constants.HF_HUB_OFFLINE", True),
        mock.patch("workbench.models.presets.preset_table", cache(presets.preset_table)),  # takes seconds
        mock.patch("os.execve", side_effect=SystemExit(0)),
        mock.patch("workbench.cli.demo._QUICK", ()),
        mock.patch("workbench.cli.demo._FULL", ()),
    ]
    old = signal.signal(signal.SIGALRM, _interrupt)
    try:
        for patch in patches:
            patch.start()
        (root / "home").mkdir()
        os.chdir(root / "home")
        yield make_world(root)
    finally:
        os.chdir(here)
        signal.signal(signal.SIGALRM, old)
        for patch in reversed(patches):
            patch.stop()


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Print a table of verbs and codes, and every command that misbehaved."""
    from tests.fuzzing.commands import commands

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="skip the commands before this one")
    given = parser.parse_args()
    table: Counter[tuple[str, int]] = Counter()
    kinds: Counter[str] = Counter()
    bad = 0
    with tempfile.TemporaryDirectory() as folder, quiet_world(Path(folder)) as world:
        for number, words in enumerate(commands(world, given.seed, given.count)):
            if number < given.first:
                continue
            outcome = run_command(words)
            table[words[0] if words[0].isalpha() and len(words[0]) < 12 else "(no verb)", outcome.code] += 1
            if outcome.seconds > 8:
                print(f"slow {number}: {outcome.seconds:.0f} s: {words!r}", flush=True)
            if outcome.faults:
                bad += 1
                kinds[_kind(outcome.faults[0])] += 1
                whole = "\n".join(outcome.faults) if kinds[_kind(outcome.faults[0])] == 1 else "as above"
                print(f"--- {number}: {words!r}\n{_kind(outcome.faults[0])}\n{whole}", flush=True)
            if number % 100 == 99:
                print(f"{number + 1} commands, {bad} with faults", file=sys.stderr, flush=True)
    for verb in sorted({verb for verb, _ in table}):
        codes = ", ".join(f"{code}: {n}" for (v, code), n in sorted(table.items()) if v == verb)
        print(f"{verb:10} {codes}")
    for kind, times in kinds.most_common():
        print(f"{times:5} {kind}")
    print(f"{sum(table.values())} commands, {bad} with faults")


def _kind(fault: str) -> str:
    """A traceback's innermost line of this repository, and the exception; of other faults the beginning."""
    if not fault.startswith("traceback"):
        return fault[:80]
    lines = fault.strip().splitlines()
    ours = [line.strip() for line in lines if 'File "' in line and "site-packages" not in line]
    return f"{ours[-1] if ours else ''} {lines[-1][:90]}"


if __name__ == "__main__":
    main()
