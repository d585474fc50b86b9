from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.runs.conftest import DATA, MODEL, RECIPE
from workbench.errors import RunError
from workbench.runs import Run, RunFolder
from workbench.statistics import Estimate

ESTIMATE = Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=4)


def test_a_finished_run_is_read_back(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "toy-10", "text": "b", "value": 2.5}, {"id": "toy-9", "text": "a", "value": 1.0}])
    folder.append([{"id": "toy-0", "text": "c", "value": 0.0}])
    folder.set_doctor({"verdict": "pass", "checks": []})
    folder.finish({"toy": {"accuracy": ESTIMATE}}, {"tokens_per_second": 9.0}, {"cut": 0})

    run = Run.open(folder.path)
    assert run.complete
    assert run.results == {"toy": {"accuracy": ESTIMATE}}
    assert run.throughput == {"tokens_per_second": 9.0}
    assert run.notes == {"cut": 0}
    assert run.record == replace(record, doctor={"verdict": "pass", "checks": []})
    # Numbers inside ids sort as numbers.
    assert run.examples().to_dict("list") == {
        "id": ["toy-0", "toy-9", "toy-10"],
        "text": ["c", "a", "b"],
        "value": [0.0, 1.0, 2.5],
    }
    assert sorted(p.name for p in folder.path.iterdir()) == ["examples.parquet", "results.json", "run.json"]


def test_order_of_items_can_be_given(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": name} for name in "abc"])
    folder.finish({}, {}, order=["c", "a", "b"])
    assert list(Run.open(folder.path).examples()["id"]) == ["c", "a", "b"]


def test_resume_knows_what_is_finished_and_keeps_each_id_once(tmp_path, record):
    first = RunFolder.create(tmp_path, record)
    first.append([{"id": "1", "value": 1}])
    again = RunFolder.resume(first.path, RECIPE, model=MODEL, data=DATA)
    assert again.finished_ids() == {"1"}
    again.append([{"id": "1", "value": 1}, {"id": "2", "value": 2}])  # as two processes at once would
    again.finish({}, {})
    assert list(Run.open(first.path).examples()["id"]) == ["1", "2"]


def test_a_run_stored_before_a_setting_existed_had_what_was_in_force_then(tmp_path, record):
    """``evaluate`` has its ``boundary`` since e4046ac; before, continuations began as in the joint encoding.

    The options of challenge sets are younger still; tasks of before were asked by the defaults.
    """
    old = RunFolder.create(tmp_path, replace(record, verb="evaluate"))
    assert "boundary" not in old.record.recipe
    RunFolder.resume(old.path, {**RECIPE, "boundary": "joint"}).release()
    younger = {
        "limit_per_paradigm": None,
        "convention": "workbench",
        "reduction": "sum",
        "masking": "original",
    }
    RunFolder.resume(old.path, {**RECIPE, **younger}).release()
    with pytest.raises(RunError, match=r"recipe\.boundary was 'joint' and is now 'separate'"):
        RunFolder.resume(old.path, {**RECIPE, "boundary": "separate"})


def test_resuming_a_finished_run_returns_it_complete(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "1"}])
    folder.finish({"toy": {"accuracy": ESTIMATE}}, {})
    again = RunFolder.resume(folder.path, RECIPE)
    assert again.complete
    assert again.finished_ids() == {"1"}
    again.finish({}, {})  # changes nothing
    assert Run.open(folder.path).results == {"toy": {"accuracy": ESTIMATE}}
    with pytest.raises(RunError, match="is finished; start a new run"):
        again.append([{"id": "2"}])


@pytest.mark.parametrize(
    ("recipe", "model", "data", "field"),
    [
        ({**RECIPE, "limit": 4}, MODEL, DATA, "recipe.limit was 3 and is now 4"),
        ({"task": "toy"}, MODEL, DATA, "recipe.limit was 3 and is now None"),
        (RECIPE, {**MODEL, "content_hash": "xyz"}, DATA, "model.content_hash was 'abc' and is now 'xyz'"),
        (RECIPE, {**MODEL, "dtype": "bfloat16"}, DATA, "model.dtype"),
        (RECIPE, MODEL, {"toy": {**DATA["toy"], "sha256": "other"}}, "data.toy.sha256"),
    ],
)
def test_resume_refuses_other_work_naming_the_field(tmp_path, record, recipe, model, data, field):
    folder = RunFolder.create(tmp_path, record)
    with pytest.raises(RunError, match=field):
        RunFolder.resume(folder.path, recipe, model=model, data=data)


def test_resume_allows_data_and_model_in_another_place(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    moved = {"toy": {**DATA["toy"], "source": "elsewhere"}}
    assert not RunFolder.resume(folder.path, RECIPE, model={**MODEL, "name": "copy"}, data=moved).complete


def test_another_schema_version_is_refused(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    path = folder.path / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    for action in (lambda: RunFolder.resume(folder.path, RECIPE), lambda: Run.open(folder.path)):
        with pytest.raises(RunError, match="has schema version 99, this workbench reads 1"):
            action()


def test_broken_files_are_one_clear_error(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    (folder.path / "results.json").write_text('{"schema_version": 1, "results": {"toy": 3}}')
    with pytest.raises(RunError, match="does not hold task -> metric -> estimate"):
        Run.open(folder.path)
    (folder.path / "results.json").write_text('{"half')
    with pytest.raises(RunError, match=r"results\.json is not valid JSON"):
        Run.open(folder.path)
    (folder.path / "results.json").write_text('{"schema_version": 1, "results": {}}')
    (folder.path / "examples.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(RunError, match=r"cannot read .*examples\.parquet"):
        Run.open(folder.path).examples()


def test_lone_surrogates_are_escaped_in_json_and_parquet(tmp_path, record):
    folder = RunFolder.create(tmp_path, replace(record, recipe={"text\udfff": "a\ud800b"}))
    folder.append([{"id": "x\ud800", "text": "\ud83d", "words": ["\udc00"]}])
    assert folder.finished_ids() == {"x\\ud800"}
    folder.finish({}, {}, {"note": "\udc80"})
    run = Run.open(folder.path)
    assert run.record.recipe == {"text\\udfff": "a\\ud800b"}
    assert run.notes == {"note": "\\udc80"}
    assert run.examples().iloc[0]["text"] == "\\ud83d"


def test_numpy_values_and_infinities_survive_in_examples_and_become_null_in_json(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    row = {"id": np.int64(1), "p": np.float64(-math.inf), "hit": np.bool_(True), "rank": np.int64(3)}
    folder.append([row, {"id": "2", "p": 0.25, "hit": False, "rank": None}])
    folder.finish({}, {"rate": math.inf}, {"value": math.nan})
    run = Run.open(folder.path)
    assert list(run.examples()["p"]) == [-math.inf, 0.25]
    assert list(run.examples()["hit"]) == [True, False]
    assert run.throughput == {"rate": None}
    assert run.notes == {"value": None}


def test_columns_that_appear_later_or_change_from_whole_to_float_fit(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "1", "value": None}])
    folder.append([{"id": "2", "value": 3}])
    folder.append([{"id": "3", "value": 0.5, "more": "x"}])
    assert folder.rows() == [
        {"id": "1", "value": None, "more": None},
        {"id": "2", "value": 3.0, "more": None},
        {"id": "3", "value": 0.5, "more": "x"},
    ]


def test_rows_that_cannot_be_stored_are_refused(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    for rows, message in [
        ([{"text": "no id"}], "needs an 'id'"),
        ([{"id": "1", "v": "text"}, {"id": "2", "v": 3}], "a column of the examples cannot be stored"),
        ([{"id": "1", "v": {}}], "a column of the examples cannot be stored"),
        ([{"id": "1", "v": 10**30}], "a column of the examples cannot be stored"),
    ]:
        with pytest.raises(RunError, match=message):
            folder.append(rows)
    assert folder.finished_ids() == set()


def test_an_unfinished_run_shows_what_is_stored(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    assert Run.open(folder.path).examples().empty
    folder.append([{"id": "1", "value": 2}])
    run = Run.open(folder.path)
    assert not run.complete
    assert run.results == {}
    assert list(run.examples()["value"]) == [2]


def test_arrays_and_figures_are_kept_beside(tmp_path, record):
    folder = RunFolder.create(tmp_path, record)
    folder.save_arrays({"weights": np.arange(3.0)})
    assert folder.save_figure("plot.svg", b"<svg/>").read_bytes() == b"<svg/>"
    assert Run.open(folder.path).arrays()["weights"].tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RunError, match="is not a run id"):
        folder.save_figure("../plot.svg", b"")
