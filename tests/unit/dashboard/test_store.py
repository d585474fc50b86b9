"""The runs folder as pages see it, and paths that they may read."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.dashboard.test_pages import finish, store_run
from workbench.dashboard.resources import opened
from workbench.dashboard.store import (
    allowed_model,
    allowed_path,
    delete_run,
    first_examples,
    folder_bytes,
    open_run,
    stored_runs,
)
from workbench.errors import RunError, WorkbenchError
from workbench.runs import Run


def test_of_two_who_delete_one_run_one_is_told(runs: Path) -> None:
    name = finish(store_run(runs))

    def delete(_: int) -> str:
        try:
            delete_run(name)
        except RunError as error:
            return str(error)
        return "deleted"

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(delete, range(2)))
    assert said == [f"{name} is not there any more; someone else deleted it", "deleted"]
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize("name", ["..", "../outside", "/etc", "linked"])
def test_nothing_outside_the_runs_folder_is_opened_or_deleted(runs: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    stored = store_run(outside)
    finish(stored)
    (runs / "linked").symlink_to(stored.path)
    with pytest.raises(RunError, match="there is no run"):
        open_run(name)
    with pytest.raises(RunError, match="is not there any more"):
        delete_run(name)
    assert stored.path.is_dir()


def test_a_run_that_vanishes_while_it_is_open_is_an_error_in_one_line(runs: Path) -> None:
    name = finish(store_run(runs))
    run = open_run(name)
    delete_run(name)
    with pytest.raises(RunError):
        first_examples(run, 5)
    with pytest.raises(RunError, match="may have been deleted"):
        open_run(name)


def test_only_the_first_examples_are_read(runs: Path) -> None:
    folder = store_run(runs)
    folder.append([{"id": str(i), "text": f"t{i}"} for i in range(1, 40)])
    run = Run.open(runs / finish(folder))
    head, count = first_examples(run, 7)
    assert list(head["id"]) == [str(i) for i in range(7)]
    assert count == 40


def test_broken_examples_are_an_error_in_one_line(runs: Path) -> None:
    run = Run.open(runs / finish(store_run(runs)))
    (run.path / "examples.parquet").write_bytes(b"PAR1 half")
    with pytest.raises(RunError, match="is damaged"):
        first_examples(run, 5)


def test_bytes_of_a_folder_count_all_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "deep" / "b").write_bytes(b"123")
    assert folder_bytes(tmp_path) == 8


def test_the_example_is_shown_while_there_is_no_run(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = tmp_path / "example"
    example.mkdir()
    name = finish(store_run(example))
    monkeypatch.setattr("workbench.dashboard.store.EXAMPLE", example)
    assert [run.id for run in stored_runs()] == [name]
    with pytest.raises(RunError):
        delete_run(name)  # it belongs to the package
    own = finish(store_run(runs))
    assert [run.id for run in stored_runs()] == [own]


def test_paths_below_the_allowed_folders_only(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, data = tmp_path / "start", tmp_path / "data"
    for folder in (start, data):
        folder.mkdir()
    monkeypatch.chdir(start)
    monkeypatch.setenv("WORKBENCH_DASHBOARD_FOLDERS", str(data))
    assert allowed_path("file.txt") == (start / "file.txt").resolve()
    assert allowed_path(str(data / "x")) == (data / "x").resolve()
    (start / "out").symlink_to("/etc")
    for path in ("..", "/etc/passwd", "../start2", "out/passwd", "~root/x"):
        with pytest.raises(WorkbenchError, match="lies outside the folders that this dashboard reads"):
            allowed_path(path)


@pytest.mark.parametrize(
    "name",
    [
        "runs/../../outside@step-4",  # the folder that is compared is the one that would be read
        "../outside@step-*",
        "link@step-4",
        "link/m.gguf",
        "runs/../../outside",
        "~root/x",
    ],
)
def test_a_model_outside_the_allowed_folders_is_not_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, outside = tmp_path / "start", tmp_path / "outside"
    for folder in (start / "runs", outside / "step-4"):
        folder.mkdir(parents=True)
    (outside / "step-4" / "config.json").write_text("{}")
    (outside / "m.gguf").write_bytes(b"GGUF")
    (start / "link").symlink_to(outside)
    monkeypatch.chdir(start)
    for action in (allowed_model, opened):
        with pytest.raises(WorkbenchError, match="lies outside the folders that this dashboard reads"):
            action(name)


@pytest.mark.parametrize("place", ["by a page", "at the start"])
def test_a_function_is_not_imported_by_a_page(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_code.py").write_text("raise SystemExit('this ran')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_DASHBOARD_MODELS", "own_code:predict" if place == "at the start" else "")
    for action in (allowed_model, opened):
        with pytest.raises(WorkbenchError, match="names a function, which pages do not import"):
            action("own_code:predict")
    assert "own_code" not in sys.modules


def test_models_inside_known_names_and_hub_ids_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run" / "step-4").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for name in ("run@step-4", "run/step-4", "novels-decoder", "owner/name", "gpt2"):
        allowed_model(name)
    monkeypatch.setenv("WORKBENCH_DASHBOARD_MODELS", "/given/at/start")
    allowed_model("/given/at/start")
