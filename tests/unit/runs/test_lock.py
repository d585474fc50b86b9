"""Two processes that write one run: the second says who has it; what a killed process leaves is in nobody's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.runs.conftest import RECIPE
from workbench.errors import RunError
from workbench.runs import Run, RunFolder, RunRecord

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs are not locked on Windows")

_HOLDER = """
import sys, time
from pathlib import Path
from workbench.runs import RunFolder
folder = RunFolder.resume(Path(sys.argv[1]), {"task": "toy", "limit": 3})
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def unfinished(tmp_path: Path, record: RunRecord) -> Path:
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "1"}])
    return folder.path


def _hold(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_process_says_what_is_going_on(unfinished: Path) -> None:
    holder = _hold(unfinished)
    try:
        with pytest.raises(
            RunError, match=rf"is being written by process {holder.pid} on \S+ since 2"
        ) as caught:
            RunFolder.resume(unfinished, RECIPE)
        assert "\n" not in str(caught.value)
        assert len(Run.open(unfinished).examples()) == 1  # reading is free
        RunFolder.resume(unfinished, RECIPE, shared=True).append(
            [{"id": "2"}]
        )  # a process of the same evaluation
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert (unfinished / ".lock").is_file()  # left by the killed process, and in nobody's way
    again = RunFolder.resume(unfinished, RECIPE)
    assert again.finished_ids() == {"1", "2"}
    again.finish({}, {})
    assert not (unfinished / ".lock").exists()


def test_a_process_may_open_its_own_run_again(unfinished: Path) -> None:
    first = RunFolder.resume(unfinished, RECIPE)
    second = RunFolder.resume(unfinished, RECIPE)
    second.finish({}, {})
    assert RunFolder.resume(unfinished, RECIPE).complete
    assert first.complete


def test_a_run_let_go_is_free_for_another_process(unfinished: Path) -> None:
    folder = RunFolder.resume(unfinished, RECIPE)
    assert f'"pid": {os.getpid()}' in (unfinished / ".lock").read_text()
    del folder
    holder = _hold(unfinished)
    holder.kill()
    holder.communicate()
