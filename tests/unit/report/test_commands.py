from __future__ import annotations

import json

import pytest

from workbench.cli import main
from workbench.runs import RunFolder, RunRecord
from workbench.statistics import Estimate


def _call(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    record = RunRecord.new("evaluate", recipe={}, model={"name": "tiny"}, data={}, seeds={}, label="tiny-toy")
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "1"}])
    folder.set_doctor({"verdict": "pass", "checks": []})
    folder.finish({"toy": {"accuracy": Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=1)}}, {})
    return folder.path


def test_runs_lists_results_and_foreign_folders_on_one_line_each(capsys, run):
    (run.parent / "zz\x1b[31m").mkdir()
    code, out, err = _call(capsys, "runs")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first == f"{run.name}  complete  toy accuracy 0.5000 [0.3000, 0.7000]"
    assert second.startswith("zz\\u001b[31m  unreadable  ")


def test_runs_as_json(capsys, run):
    code, out, _ = _call(capsys, "runs", "--json")
    (entry,) = json.loads(out)
    assert code == 0
    assert entry["id"] == run.name
    assert entry["doctor"] == "pass"
    assert entry["results"]["toy"]["accuracy"]["low"] == 0.3


def test_no_runs_tell_how_to_make_one(capsys, tmp_path):
    code, out, _ = _call(capsys, "runs", "--root", tmp_path / "none")
    assert code == 0
    assert "workbench evaluate" in out
    assert json.loads(_call(capsys, "runs", "--json", "--root", tmp_path / "none")[1]) == []


def test_report_by_id_and_by_path(capsys, run, tmp_path):
    assert _call(capsys, "report", run.name)[:2] == (0, f"{run / 'report.html'}\n")
    assert _call(capsys, "report", run, "--out", tmp_path / "a.html")[:2] == (0, f"{tmp_path / 'a.html'}\n")


@pytest.mark.parametrize("name", ["nothing", "../..", "/etc", ""])
def test_report_of_no_run_is_one_line_and_exit_2(capsys, run, name):
    code, out, err = _call(capsys, "report", name)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
