"""Folders that cannot be written: one line that names the folder and what chooses another; caches find another place.

A file stands in the way of each folder, which stops root too, whom permissions do not.
"""

from __future__ import annotations

import errno
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from workbench.cli import main
from workbench.errors import RunError
from workbench.runs import make_folder

needs_train = pytest.mark.skipif(
    find_spec("accelerate") is None, reason="pip install 'transformer-workbench[train]'"
)

TRAIN = "--preset llama-tiny --objective clm --corpus novel.txt --steps 2"
VERBS = [
    "demo --quick",
    "evaluate novels-decoder --task lambada_sample --limit 2",
    "check novels-decoder --set pairs_builtin --limit-per-paradigm 1",
    "probe novels-encoder --task pos --limit 20 --seeds 1",
    "context novels-decoder --task lambada_sample --limit 2",
    "grid grid.yaml",
    "attend novels-encoder Old --view head --out runs/head.html",
    "lens novels-decoder Old --out runs/lens.html",
    pytest.param(f"train {TRAIN} --out runs/tiny", marks=needs_train),
    pytest.param(f"sweep {TRAIN} --vary positions=rope,alibi --out runs/sweep", marks=needs_train),
    pytest.param(
        "finetune novels-encoder --task rows.csv --text-column text --label-column label --method head --epochs 1",
        marks=needs_train,
    ),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with data, a cache that can be written, and no way to make ``runs``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WORKBENCH_RUNS", raising=False)
    (tmp_path / "runs").write_text("a file in the way")
    (tmp_path / "novel.txt").write_text("\n".join(f"The man near the door has {i} keys." for i in range(400)))
    (tmp_path / "grid.yaml").write_text("models: [novels-decoder]\ntasks: [lambada_sample]\n")
    (tmp_path / "rows.csv").write_text("text,label\n" + "good,yes\nbad,no\n" * 20)
    return tmp_path


def run(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[object, list[str]]:
    """The exit code, and the lines on standard error."""
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    return stopped.value.code, capsys.readouterr().err.strip().splitlines()


@pytest.mark.parametrize("words", VERBS)
def test_each_verb_says_where_it_cannot_write(
    words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, errors = run(words, capsys)
    own = [line for line in errors if line.startswith("workbench: ")]
    assert code == 2
    assert len(own) == 1
    assert "runs" in own[0]
    assert "--out" in own[0]
    assert not [line for line in errors if "Traceback" in line]
    assert (place / "runs").read_text() == "a file in the way"


def test_features_find_another_place(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(place / "runs" / "cache"))
    words = "probe novels-encoder --task pos --limit 20 --seeds 1 --out"
    with_none, errors = run(f"{words} {place / 'without'}", capsys)
    assert with_none == 0
    (note,) = [line for line in errors if line.startswith("note: the cache")]
    assert str(place / "runs" / "cache") in note
    assert "WORKBENCH_CACHE" in note


def test_a_folder_is_made_or_the_line_says_what_is_in_the_way(place: Path) -> None:
    assert make_folder(place / "a" / "b").is_dir()
    with pytest.raises(
        RunError, match=r"cannot make .*runs/x: Not a directory; choose another folder with --out"
    ):
        make_folder(place / "runs" / "x")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_each_reason_comes_with_what_to_do(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(
        RunError, match=rf"cannot make here: {os.strerror(number)}; .*another folder with --out"
    ):
        make_folder(Path("here"))
