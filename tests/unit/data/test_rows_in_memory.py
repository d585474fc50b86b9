"""Rows in memory where a file of rows is taken: DataFrames, data sets of ``datasets``, mappings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import workbench
from workbench.data.tables import records_of
from workbench.errors import ConfigError, DataError, TaskError
from workbench.evaluate import own_task
from workbench.training.finetuning import load_task

ROWS = [
    {"query": "The sky is", "choices": ["blue", "wet"], "gold": 0},
    {"query": "Grass is", "choices": ["red", "green"], "gold": 1},
]


def test_a_data_frame_gives_the_rows_of_its_mappings() -> None:
    frame = pd.DataFrame({"a": [1, None], "b": ["x", None]}, index=[7, 7])
    assert records_of(frame, "here") == [{"a": 1.0, "b": "x"}, {"a": None, "b": None}]
    assert records_of(iter(ROWS), "here") == ROWS


def test_a_data_set_of_datasets_is_rows() -> None:
    datasets = pytest.importorskip("datasets", reason="pip install datasets")
    assert records_of(datasets.Dataset.from_list(ROWS), "here") == ROWS


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "here has no rows"),
        (pd.DataFrame({"a": []}), "here has no rows"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
        ([{"a": 1}, 3], "here, row 2 is 3; give a DataFrame"),
        ([{1: "a"}], "row 1 is"),
        (5, "row 1 is 5"),
        ("text", "row 1 is 'text'"),
    ],
)
def test_what_is_no_rows_is_said(rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        records_of(rows, "here")


def test_a_task_of_rows_gives_the_numbers_of_its_file(tmp_path: Path) -> None:
    model = workbench.load("novels-decoder")
    pd.DataFrame(ROWS).to_json(tmp_path / "colours.jsonl", orient="records", lines=True)
    by_file = workbench.evaluate(model, tasks=str(tmp_path / "colours.jsonl"), doctor=False, out=tmp_path)
    for rows in (pd.DataFrame(ROWS), ROWS, own_task(ROWS)):
        run = workbench.evaluate(model, tasks=rows, doctor=False, out=tmp_path)
        assert run.results["rows"] == by_file.results["colours"]


def test_two_tables_of_one_name_are_refused() -> None:
    with pytest.raises(TaskError, match="two tasks are called 'rows'; name tables with"):
        workbench.evaluate("novels-decoder", tasks=[pd.DataFrame(ROWS), pd.DataFrame(ROWS)], doctor=False)


def test_the_keys_of_a_yaml_file_declare_it() -> None:
    task = own_task([{"q": "2+2?", "a": "4"}], "sums", type="generation", prompt="Q: {q}", answer="a")
    (item,) = task.load(None).items
    assert (task.name, item.fields["text"], item.fields["references"]) == ("sums", "Q: 2+2?", ["4"])
    with pytest.raises(ConfigError, match="unknown key 'promt'; did you mean 'prompt'"):
        own_task(ROWS, promt="x")
    with pytest.raises(DataError, match="rows: no kind of task has its columns 'q'"):
        own_task([{"q": 1}])


def test_fine_tuning_takes_a_data_frame(tmp_path: Path) -> None:
    rows = [{"text": f"a {word} film", "label": word} for word in ("good", "bad")] * 10
    file = tmp_path / "films.jsonl"
    pd.DataFrame(rows).to_json(file, orient="records", lines=True)
    found, of_file = load_task(pd.DataFrame(rows)), load_task(str(file))
    assert (found.task.name, found.task.labels) == ("rows", ("bad", "good"))
    assert (found.train, found.validation) == (of_file.train, of_file.validation)
