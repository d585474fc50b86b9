from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from workbench.errors import RunError
from workbench.runs import Run, RunFolder, RunRecord, RunState, default_root, list_runs, new_run_id


def test_id_has_time_label_and_random_digits():
    assert re.fullmatch(
        r"\d{8}-\d{6}-smollm2-135m-lambada_sample-[0-9a-f]{4}", new_run_id("smollm2-135m-lambada_sample")
    )
    assert re.fullmatch(r"\d{8}-\d{6}-a-b-c-[0-9a-f]{4}", new_run_id("../a/b é\ud800 c"))
    assert len(new_run_id("x" * 500)) < 120
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", new_run_id("../.."))


def test_all_kinds_of_folders_are_listed(tmp_path, record):
    done = RunFolder.create(tmp_path, record)
    done.finish({}, {})
    open_ = RunFolder.create(
        tmp_path, RunRecord.new("probe", recipe={}, model={}, data={}, seeds={}, label="b")
    )
    (tmp_path / "foreign").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "run.json").write_text('{"schema_version": 0}')
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "run.json").write_text('{"schema_ver')
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "run.json").write_text(json.dumps({**record.to_dict(), "model": "text"}))
    (tmp_path / "file.txt").touch()
    found = {run.id: run for run in list_runs(tmp_path)}
    assert {name: str(run.state) for name, run in found.items()} == {
        done.path.name: "complete",
        open_.path.name: "unfinished",
        "foreign": "unreadable",
        "old": "unreadable",
        "half": "unreadable",
        "odd": "unreadable",
    }
    assert "holds no run.json" in found["foreign"].problem
    assert "schema version 0" in found["old"].problem
    assert "not valid JSON" in found["half"].problem
    assert "model must be an object" in found["odd"].problem
    assert found[open_.path.name].state is RunState.UNFINISHED


def test_no_root_no_runs_and_a_file_as_root_is_an_error(tmp_path):
    assert list_runs(tmp_path / "nowhere") == []
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot list"):
        list_runs(tmp_path / "file")


def test_root_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.delenv("WORKBENCH_RUNS")
    assert default_root() == Path("runs")


def test_a_run_is_found_by_id_and_by_path(tmp_path, record, monkeypatch):
    folder = RunFolder.create(tmp_path, record)
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    assert Run.open(folder.path).record == Run.open(record.id).record == record
    with pytest.raises(RunError, match=f"did you mean '{record.id}'"):
        Run.open(record.id[:-1])


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "x" * 300, "a\x00b", ""])
def test_what_is_no_run_id_is_refused(tmp_path, name):
    with pytest.raises(RunError):
        Run.open(name, tmp_path)


def test_ids_do_not_lead_out_of_the_root(tmp_path, record):
    outside = RunFolder.create(tmp_path / "outside", record)
    (tmp_path / "root").mkdir()
    with pytest.raises(RunError, match="does not exist"):
        Run.open(f"../outside/{outside.path.name}", tmp_path / "root")
    with pytest.raises(RunError, match="is not a run id"):
        RunFolder.create(tmp_path / "root", RunRecord(**{**record.to_dict(), "id": "../escaped"}))


def test_record_holds_the_environment(record):
    import torch

    assert record.packages["torch"] == torch.__version__
    assert record.packages["transformer-workbench"]
    assert record.device["threads"] == torch.get_num_threads()
    assert record.device["cpu"]
    assert record.git_revision is None or re.match(r"[0-9a-f]{40}", record.git_revision)
    assert RunRecord.from_dict(record.to_dict()) == record


def test_a_record_with_missing_fields_names_them(record):
    values = record.to_dict()
    del values["seeds"]
    with pytest.raises(RunError, match="lacks seeds"):
        RunRecord.from_dict(values)
