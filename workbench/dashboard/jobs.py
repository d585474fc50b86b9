"""Long work: ``workbench`` commands in processes of their own, with progress, and ended when asked."""

from __future__ import annotations

import atexit
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError

__all__ = ["Job", "JobBoard", "JobState"]

_COMMAND = (sys.executable, "-P", "-m", "workbench")
_MOST_AT_ONCE = 2
_PATIENCE = 5.0  # seconds that a job has to end by itself after it was asked to
_PERCENT = re.compile(r"(\d{1,3})%\|")
_COUNTS = re.compile(r"\d[^ |]*/\d[^ |]* \[[^\]]*\]")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class JobState(StrEnum):
    """How a job stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Job:
    """One ``workbench VERB …``, in a process of its own that shows its progress bar, which is read here.

    ``known_run`` is the run's id where the command is told it; otherwise the command prints it as JSON.
    """

    def __init__(
        self,
        title: str,
        arguments: Sequence[str],
        known_run: str | None = None,
    ) -> None:
        self.title = title
        self.arguments = tuple(arguments)
        self.started = time.monotonic()
        self._known_run = known_run
        self._asked_to_end = False
        self._said: list[str] = []
        self._percent: int | None = None
        self._printed = b""
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the job)
        self._terminal, theirs = pty.openpty()  # its error stream, so that it shows a progress bar
        self._process = subprocess.Popen(
            [*_COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=theirs,
            start_new_session=True,  # Ctrl-C in the dashboard's terminal is not meant for it
        )
        os.close(theirs)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        rest = b""
        with os.fdopen(self._terminal, "rb", buffering=0) as stream:
            while True:
                try:
                    part = stream.read(4096)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                *lines, rest = re.split(rb"[\r\n]+", rest + part)
                for line in lines:
                    self._hear(line.decode("utf-8", "replace"))
        self._hear(rest.decode("utf-8", "replace"))
        self._process.wait()
        with self._output as output:
            output.seek(0)
            self._printed = output.read()

    def _hear(self, line: str) -> None:
        text = _COLOURS.sub("", line).strip()
        found = _PERCENT.search(text)
        if found:
            self._percent = min(100, int(found[1]))
            counts = _COUNTS.search(text)
            text = counts[0] if counts else text
        if text:
            self._said = [*self._said[-199:], text]

    @property
    def state(self) -> JobState:
        """Where it stands now."""
        code = self._process.poll()
        if code is None or self._listener.is_alive():
            return JobState.RUNNING
        if self._asked_to_end and code != 0:
            return JobState.CANCELLED
        # The doctor ends with 1 where it finds faults, which it tells in its answer.
        return JobState.DONE if code == 0 or self.answer is not None else JobState.FAILED

    @property
    def progress(self) -> float | None:
        """Share of the present step that is done, 0 to 1; ``None`` before the first is printed."""
        return None if self._percent is None else self._percent / 100

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.started

    @property
    def last_line(self) -> str:
        """What it said last."""
        return self._said[-1] if self._said else ""

    @property
    def problem(self) -> str:
        """The one line of a command that failed."""
        said = [line for line in self._said if line.startswith("workbench: ")]
        return (said[-1] if said else self.last_line).removeprefix("workbench: ")

    @property
    def answer(self) -> dict[str, Any] | None:
        """The JSON object that it printed, once it has ended; ``None`` if it printed none."""
        try:
            said = json.loads(self._printed)
        except ValueError:
            return None
        return said if isinstance(said, dict) else None

    @property
    def run(self) -> str | None:
        """The id of the run it stored, once it is done."""
        if self.state is not JobState.DONE:
            return None
        told = (self.answer or {}).get("run")
        return self._known_run or (Path(told).name if isinstance(told, str) else None)

    def cancel(self) -> None:
        """Ask it to end, as Ctrl-C would, and end it if it does not; what it stored so far stays."""
        if self._process.poll() is None:
            self._asked_to_end = True
            self._signal(signal.SIGINT)
            threading.Thread(target=self._end, daemon=True).start()

    def _signal(self, number: int) -> None:
        """To the process and those it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _end(self) -> None:
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._asked_to_end = True
            self._signal(signal.SIGKILL)
            self._listener.join()


class JobBoard:
    """The jobs of one dashboard; they end with it."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(self, title: str, arguments: Sequence[str], known_run: str | None = None) -> Job:
        """Start a job; raises :class:`~workbench.errors.ConfigError` while two are running."""
        with self._lock:
            running = [job.title for job in self._jobs if job.state is JobState.RUNNING]
            if len(running) >= _MOST_AT_ONCE:
                raise ConfigError(
                    f"{len(running)} jobs are running ({', '.join(running)}); wait for one, or cancel it"
                )
            job = Job(title, arguments, known_run)
            self._jobs.append(job)
            return job

    @property
    def jobs(self) -> list[Job]:
        """All that were not dismissed, in order of their start."""
        with self._lock:
            return list(self._jobs)

    def dismiss(self, job: Job) -> None:
        """Take a finished job off the board."""
        with self._lock:
            if job in self._jobs and job.state is not JobState.RUNNING:
                self._jobs.remove(job)

    def close(self) -> None:
        """End all jobs."""
        for job in self.jobs:
            job.kill()
