"""Jobs: commands in processes of their own that tell how far they are and end when asked."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from workbench.dashboard import jobs
from workbench.dashboard.jobs import Job, JobBoard, JobState
from workbench.errors import ConfigError

BAR = "  40%|####      | 4/10 [00:01<00:02,  3.0it/s]"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a few lines of Python in the place of the ``workbench`` command."""
    real = subprocess.Popen

    def use(script: str) -> None:
        def start(command: list[str], **options: Any) -> Any:
            return real([sys.executable, "-c", script], **options)

        monkeypatch.setattr(jobs.subprocess, "Popen", start)

    return use


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240  # starting a command takes long on a busy machine
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_progress_is_read_from_the_bar_and_the_run_from_the_output(fake: Callable[[str], None]) -> None:
    fake(
        "import sys, time\n"
        f"sys.stderr.write({BAR!r} + chr(13)); sys.stderr.flush()\n"
        "assert sys.stderr.isatty()\n"
        "time.sleep(1)\n"
        """print('{"run": "some/where/20260101-x"}')"""
    )
    job = Job("a job", ["evaluate"])
    wait_for(lambda: job.progress is not None)
    assert job.progress == 0.4
    assert job.last_line == "4/10 [00:01<00:02,  3.0it/s]"
    wait_for(lambda: job.state is not JobState.RUNNING)
    assert job.state is JobState.DONE
    assert job.run == "20260101-x"


def test_a_failed_job_says_its_one_line(fake: Callable[[str], None]) -> None:
    fake("import sys; print('workbench: no such thing', file=sys.stderr); sys.exit(2)")
    job = Job("a job", ["evaluate"])
    wait_for(lambda: job.state is JobState.FAILED and bool(job.problem))
    assert job.problem == "no such thing"
    assert job.run is None


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_cancelled_job_ends(
    fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, stubborn: bool
) -> None:
    monkeypatch.setattr(jobs, "_PATIENCE", 0.3)
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" if stubborn else ""
    fake(f"import sys, time\n{ignore}sys.stderr.write('ready' + chr(10)); sys.stderr.flush()\ntime.sleep(60)")
    job = Job("a job", ["evaluate"])
    wait_for(lambda: job.last_line == "ready")
    job.cancel()
    wait_for(lambda: job.state is not JobState.RUNNING)
    assert job.state is JobState.CANCELLED


def test_a_third_job_waits_and_all_end_with_the_board(fake: Callable[[str], None]) -> None:
    fake("import time; time.sleep(60)")
    board = JobBoard()
    first, second = board.start("one", []), board.start("two", [])
    with pytest.raises(ConfigError, match=r"2 jobs are running \(one, two\); wait for one, or cancel it"):
        board.start("three", [])
    board.dismiss(first)
    assert board.jobs == [first, second]  # running jobs stay
    board.close()
    assert {job.state for job in board.jobs} == {JobState.CANCELLED}
    board.dismiss(first)
    assert board.jobs == [second]
