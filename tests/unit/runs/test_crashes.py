from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.unit.runs.conftest import RECIPE
from workbench.errors import RunError
from workbench.runs import Run, RunFolder, RunState, list_runs

# Appends chunks of two rows for ever.
_WRITER = """
import sys
from pathlib import Path
from workbench.runs import RunFolder
folder = RunFolder.resume(Path(sys.argv[1]), {"task": "toy", "limit": 3})
k = len(folder.finished_ids()) // 2
while True:
    folder.append([{"id": f"{k}-a", "k": k, "text": "x" * 20000}, {"id": f"{k}-b", "k": k, "text": "y"}])
    k += 1
"""

# Files may grow to so many bytes only: what a full disk does, without one.
_FULL = """
import resource, sys
from pathlib import Path
from workbench.runs import RunFolder, RunRecord
root = Path(sys.argv[1])
record = RunRecord.new("evaluate", recipe={}, model={}, data={}, seeds={})
if sys.argv[2] == "append":
    folder = RunFolder.create(root, record)
    folder.append([{"id": "1"}])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
if sys.argv[2] == "append":
    folder.append([{"id": "2", "text": "x" * 1000}])
else:
    RunFolder.create(root, record)
"""


def _python(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", *arguments], stderr=subprocess.PIPE, text=True)


def test_killed_writers_leave_whole_chunks_only(tmp_path, record):
    path = RunFolder.create(tmp_path, record).path  # let go: the writers below are other processes
    chunks = path / "chunks"
    before = 0
    for delay in (0.0, 0.013, 0.029):
        process = _python(_WRITER, str(path))
        while len(list(chunks.glob("*.parquet"))) < before + 3 and process.poll() is None:
            time.sleep(0.005)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        before = len(list(chunks.glob("*.parquet")))
    again = RunFolder.resume(path, RECIPE)
    ids = again.finished_ids()
    assert len(ids) == 2 * before  # every chunk is whole: both its rows are there
    assert not list(chunks.glob(".*"))  # what was half-written is gone
    again.finish({}, {})
    examples = Run.open(path).examples()
    assert list(examples["id"]) == [f"{k}-{half}" for k in range(before) for half in "ab"]


def test_a_damaged_chunk_is_computed_again(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "1"}])
    folder.append([{"id": "2"}])
    second = sorted((folder.path / "chunks").iterdir())[1]
    second.write_bytes(second.read_bytes()[:-20])
    assert RunFolder.resume(folder.path, RECIPE).finished_ids() == {"1"}


def test_killed_between_examples_and_results_is_unfinished_and_can_finish(tmp_path, record, monkeypatch):
    from workbench.runs import _folder

    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "1"}])

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_folder, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.finish({}, {})
    again = RunFolder.resume(folder.path, RECIPE)
    assert not again.complete
    assert again.finished_ids() == {"1"}
    again.finish({}, {})
    assert Run.open(folder.path).complete


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file size are POSIX")
@pytest.mark.parametrize("moment", ["create", "append"])
def test_a_full_disk_is_one_line_and_nothing_half_written(tmp_path, moment):
    _, problem = (process := _python(_FULL, str(tmp_path), moment)).communicate(timeout=300)
    assert process.returncode == 1
    assert problem.strip().splitlines()[-1].startswith("workbench.errors.RunError: cannot ")
    assert "File too large; free some space there" in problem
    if moment == "create":
        assert list(tmp_path.iterdir()) == []
    else:
        (run,) = list_runs(tmp_path)
        assert run.state is RunState.UNFINISHED
        assert not [p for p in run.path.rglob("*") if p.name.endswith(".part")]
        assert RunFolder.resume(run.path, {}).finished_ids() == {"1"}


def test_a_root_that_is_a_file_is_refused(tmp_path, record):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot make the run folder"):
        RunFolder.create(tmp_path / "file", record)


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may write anywhere")
def test_a_read_only_root_is_refused(tmp_path, record):
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="Permission denied"):
        RunFolder.create(tmp_path, record)


def test_what_a_killed_process_left_is_removed(tmp_path, record):
    """Killed while run.json was rewritten, and again after the results and before the chunks were removed."""
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "1"}])
    (folder.path / ".run.json.0a1b2c3d.part").write_text('{"half')
    path = RunFolder.resume(folder.path, RECIPE).path
    assert sorted(p.name for p in path.iterdir()) == [".lock", "chunks", "run.json"]
    folder.finish({}, {})
    (path / "chunks").mkdir()
    (path / ".lock").touch()
    assert RunFolder.resume(path, RECIPE).complete
    assert sorted(p.name for p in path.iterdir()) == ["examples.parquet", "results.json", "run.json"]
