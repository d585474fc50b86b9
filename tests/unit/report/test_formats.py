from __future__ import annotations

import base64
import io
import json
import re

import pandas as pd
import pytest
import yaml

from workbench.cli import main
from workbench.errors import RunError, WorkbenchError
from workbench.estimate import Estimate
from workbench.report import model_card, picture_of, render_report, render_table, runs_of, write_report
from workbench.runs import Run, RunFolder, RunRecord

HALF = Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=20)


def _run(root, model="tiny_1", tasks=("toy",), rows=(), finish=True) -> Run:
    record = RunRecord.new(
        "evaluate", recipe={"limit": 20}, model={"name": model}, data={}, seeds={"s": 0}, label=model
    )
    folder = RunFolder.create(root, record)
    folder.append(list(rows) or [{"id": "0", "text": "a,b", "correct": True}])
    if finish:
        folder.finish({task: {"accuracy": HALF} for task in tasks}, {})
    return Run.open(folder.path)


def test_a_table_in_each_format(tmp_path):
    runs = [_run(tmp_path), _run(tmp_path, "other")]
    frame = pd.read_csv(io.StringIO(render_table(runs, "csv")))
    assert frame[["model", "task", "metric", "value", "low", "n"]].values.tolist() == [
        ["tiny_1", "toy", "accuracy", 0.5, 0.3, 20],
        ["other", "toy", "accuracy", 0.5, 0.3, 20],
    ]
    first = json.loads(render_table(runs, "json"))[0]
    assert (first["model"]["name"], first["results"]["toy"]["accuracy"]["value"]) == ("tiny_1", 0.5)
    assert "| tiny\\_1 | toy | accuracy | 0.5000 | 0.3000 to 0.7000 | 20 |" in render_table(runs, "md")
    assert r"tiny\_1 & toy & accuracy & 0.5000 & 0.3000 to 0.7000 & 20 \\" in render_table(runs, "latex")


def test_formats_that_are_none_and_runs_without_results(tmp_path):
    with pytest.raises(WorkbenchError, match="unknown --format 'pdf'"):
        render_table([_run(tmp_path)], "pdf")
    with pytest.raises(WorkbenchError, match="no results yet"):
        render_table([_run(tmp_path, finish=False)], "md")


def test_several_runs_share_a_page_with_an_overview(tmp_path):
    runs = [_run(tmp_path, tasks=("a", "b", "c")), _run(tmp_path, "other", tasks=("a",))]
    page = render_report(
        runs, exhibits=[picture_of("<A map>", b"<svg/>", "what it shows")], comparison=["a > b"]
    )
    assert "<h1>2 runs</h1>" in page
    assert page.count("<details") == 2
    assert '<a href="#run-1">other</a>' in page
    assert "&lt;A map&gt;" in page
    assert "a &gt; b" in page
    assert page.count("0.5000 (0.3000 to 0.7000)") == 4
    # four values of a shared metric in the overview, three in the first run; and the exhibit
    assert page.count('<img src="data:image/svg+xml;base64,') == 3


def test_several_runs_need_a_place(tmp_path):
    with pytest.raises(RunError, match="add --out"):
        write_report([_run(tmp_path), _run(tmp_path)])


def test_the_data_is_inside_the_page(tmp_path):
    page = render_report(_run(tmp_path))
    (examples,) = re.findall(r'download="[^"]*-examples.csv" href="data:text/csv;base64,([^"]+)"', page)
    assert base64.b64decode(examples).decode() == 'id,text,correct\n0,"a,b",True\n'


def test_examples_that_went_wrong_come_first(tmp_path):
    rows = [{"id": f"item-{k}", "correct": k != 24} for k in range(30)]
    page = render_report(_run(tmp_path, rows=rows))
    assert re.findall(r"item-\d+", page)[:3] == ["item-24", "item-0", "item-1"]


def test_a_card_has_the_hubs_metadata_and_every_value(tmp_path):
    runs = [_run(tmp_path, tasks=("toy", "more"))]
    text = model_card("tiny_1", runs, about={"about": "small", "hours": 0.5, "loss_curve": [[1, 2.0]]})
    _, metadata, body = text.split("---\n", 2)
    (entry,) = yaml.safe_load(metadata)["model-index"]
    assert entry["name"] == "tiny_1"
    assert [r["metrics"][0]["value"] for r in entry["results"]] == [0.5, 0.5]
    assert "- hours: 0.5" in body
    assert "loss_curve" not in body
    assert body.count("0.3000 to 0.7000") == 2


def test_a_card_of_a_model_without_runs_names_those_that_have(tmp_path):
    _run(tmp_path, "other")
    with pytest.raises(RunError, match="no complete run of 'tiny'; stored are runs of other"):
        runs_of("tiny", tmp_path)


def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [_run(tmp_path / "runs"), _run(tmp_path / "runs")]

    def call(*arguments: object) -> str:
        with pytest.raises(SystemExit) as stop:
            main([str(a) for a in arguments])
        assert stop.value.code == 0
        return capsys.readouterr().out

    assert call("report", *(r.path for r in runs)) == "report.html\n"
    assert call("report", runs[0].path, "--format", "csv", "--out", "t.csv") == "t.csv\n"
    assert call("card", "tiny_1", "--out", "README.md") == "README.md\n"
    assert (tmp_path / "report.html").read_text().count("<details") == 2
    assert (tmp_path / "t.csv").read_text().startswith("run,model,task,metric,value")
    assert "model-index" in (tmp_path / "README.md").read_text()
