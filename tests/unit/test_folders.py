"""The cache and folders that appear whole: modes, killed writers, places that cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import folders
from workbench.errors import WorkbenchWarning
from workbench.folders import cached_folder, folder_by_rename

_HALF = """
import sys, time
from pathlib import Path
from workbench.folders import folder_by_rename
with folder_by_rename(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def _writer(target: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", _HALF, str(target)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == "writing\n"
    return process


def test_a_killed_writer_leaves_nothing_that_is_read_and_the_next_one_removes_it(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "entry"
    process = _writer(target)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not target.exists()
    assert len(list(target.parent.iterdir())) == 1
    with folder_by_rename(target) as folder:
        (folder / "whole").write_text("whole")
    assert [p.name for p in target.parent.iterdir()] == ["entry"]
    assert [p.name for p in target.iterdir()] == ["whole"]


def test_a_writer_that_lives_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "entry"
    process = _writer(target)
    try:
        with folder_by_rename(target) as folder:
            (folder / "whole").write_text("whole")
        assert len(list(tmp_path.iterdir())) == 2  # the other's, and what was made now
    finally:
        process.kill()
        process.wait()


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), folder_by_rename(tmp_path / "entry") as folder:
        (folder / "half" / "missing").write_text("half")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_modes_follow_the_umask_whatever_writes_the_files(mask: int, tmp_path: Path) -> None:
    old = os.umask(mask)
    try:
        with folder_by_rename(tmp_path / "a" / "entry") as folder:
            (folder / "inner").mkdir()
            for file in (folder / "weights", folder / "inner" / "file"):
                file.write_bytes(b"")
                file.chmod(0o600)  # as safetensors does
    finally:
        os.umask(old)
    for path in (tmp_path / "a").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path


def test_the_cache_is_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "here"))
    assert cached_folder("features", "key") == tmp_path / "here" / "features" / "key"


def test_a_cache_that_cannot_be_written_is_stood_in_for_by_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(folders, "_temporary_cache", lambda: tmp_path / "temporary")
    with pytest.warns(
        WorkbenchWarning, match=r"file/cache cannot be written \(Not a directory\).*WORKBENCH_CACHE"
    ):
        found = cached_folder("features", "key")
    assert found == tmp_path / "temporary" / "features" / "key"


def test_the_temporary_folder_goes_with_the_process(tmp_path: Path) -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from workbench.folders import cached_folder, folder_by_rename\n"
        "with folder_by_rename(cached_folder('features', 'key')) as folder: (folder / 'a').write_text('a')\n"
        "print(cached_folder('features', 'key') / 'a', (cached_folder('features', 'key') / 'a').is_file())"
    )
    environment = {**os.environ, "WORKBENCH_CACHE": "/dev/null/cache", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    path, existed = done.stdout.split()
    assert existed == "True"
    assert Path(path).is_relative_to(tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_is_cached_is_read_from_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "features" / "key").mkdir(parents=True)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(folders, "_problem", lambda _: "Read-only file system")
    assert cached_folder("features", "key") == tmp_path / "features" / "key"


def test_a_user_without_a_home_has_a_cache_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKBENCH_CACHE", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what Python does for an unknown user
    assert folders.cache_dir() == Path("/nonexistent/.cache/transformer-workbench")


@pytest.mark.parametrize(
    ("path", "variable"),
    [
        ("/cache/features/x", "WORKBENCH_CACHE"),
        ("/hugging/hub/models--a--b", "HF_HOME"),
        ("/elsewhere/runs", "WORKBENCH_RUNS"),
        ("/cached/x", "WORKBENCH_RUNS"),
        (None, "WORKBENCH_RUNS"),
    ],
)
def test_what_chooses_another_place(path: str | None, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", "/cache")
    monkeypatch.setenv("HF_HOME", "/hugging")
    assert variable in folders.another_place(path)
