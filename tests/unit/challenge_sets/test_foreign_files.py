"""Files of another kind than a published set's are refused in one line; its own file is found under any name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from challenge_sets.checking import find_set
from challenge_sets.tasks import TASKS
from tests.helpers import data_dir, needs_data, run_command
from workbench.errors import WorkbenchError
from workbench.evaluate import TaskOptions, with_options

ROWS = [
    {"question": "Is it?", "answer": 1, "passage": None},
    {"question": "Why?", "answer": 2, "passage": "x"},
]
WRITE: dict[str, Callable[[Path], object]] = {
    ".jsonl": lambda path: path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS)),
    ".json": lambda path: path.write_text(json.dumps(ROWS)),
    ".csv": lambda path: pd.DataFrame(ROWS).to_csv(path, index=False),
    ".tsv": lambda path: pd.DataFrame(ROWS).to_csv(path, index=False, sep="\t"),
    ".parquet": lambda path: pd.DataFrame(ROWS).to_parquet(path),
}
PUBLISHED = [one for one in TASKS if one.files]
OWN_FILES = {
    "crows_pairs": "crows_pairs/crows_pairs_anonymized.csv",
    "checklist": "checklist/sentiment_suite_first40.jsonl",
}


@pytest.mark.parametrize("ending", WRITE)
@pytest.mark.parametrize("published", PUBLISHED, ids=lambda one: one.name)
def test_a_file_of_another_kind_is_one_line(published, ending, tmp_path):
    file = tmp_path / f"mine{ending}"
    WRITE[ending](file)
    with pytest.raises(WorkbenchError) as refusal:
        with_options(published, TaskOptions(data_dir=str(file))).items()
    assert "\n" not in str(refusal.value)


@needs_data
@pytest.mark.parametrize("name", OWN_FILES)
def test_the_file_of_a_published_set_is_found_under_another_name(name, tmp_path):
    source = data_dir() / OWN_FILES[name]
    file = tmp_path / f"mine{source.suffix}"
    shutil.copy(source, file)
    found = find_set(str(file))
    assert found.name == name
    by_name = with_options(next(one for one in TASKS if one.name == name), TaskOptions(data_dir=str(source)))
    assert len(found.items().items) == len(by_name.items().items) > 100


@needs_data
def test_a_check_of_such_a_file_resumes(tmp_path):
    shutil.copy(data_dir() / OWN_FILES["crows_pairs"], tmp_path / "mine.csv")
    words = ("check", "novels-decoder", "--set", str(tmp_path / "mine.csv"), "--limit", "6", "--no-doctor")
    first = run_command(*words, "--out", str(tmp_path / "runs"), "--json")
    assert first.returncode == 0, first.stderr
    (run,) = (tmp_path / "runs").iterdir()
    (run / "results.json").unlink()
    again = run_command("check", "--resume", str(run), "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["results"] == json.loads(first.stdout)["results"]
