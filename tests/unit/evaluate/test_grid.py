from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from tests.model_folders import save_llama
from workbench.cli.grid import command
from workbench.errors import ConfigError, DataError, ModelError, TaskError
from workbench.evaluate.grid import read_grid, run_grid, summary
from workbench.runs import Run


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_llama(folder / "one", positions=512)
    save_llama(folder / "two", positions=256)
    return folder


def grid_file(folder: Path, tmp_path: Path, **changes: object) -> Path:
    content = {
        "models": [str(folder / "one"), {"name": str(folder / "two"), "dtype": "float32"}],
        "tasks": ["lambada_sample"],
        "limit": 5,
        **changes,
    }
    path = tmp_path / "small.yaml"
    path.write_text(json.dumps(content))  # JSON is YAML
    return path


def test_a_cell_is_a_run_and_a_second_call_runs_nothing(models, tmp_path):
    grid = read_grid(grid_file(models, tmp_path))
    results = run_grid(grid, tmp_path / "out")
    assert [(Path(r.cell.model.name).name, r.cell.task, r.problem) for r in results] == [
        ("one", "lambada_sample", ""),
        ("two", "lambada_sample", ""),
    ]
    assert all(len(Run.open(r.run).examples()) == 5 for r in results)
    again = run_grid(grid, tmp_path / "out")
    assert [r.run for r in again] == [r.run for r in results]
    table = pd.read_csv(tmp_path / "out" / "summary.csv")
    assert table["metric"].tolist() == ["accuracy", "perplexity"] * 2
    stored = Run.open(results[0].run).results["lambada_sample"]["perplexity"].value
    assert table["value"][1] == pytest.approx(stored)


def test_an_unfinished_cell_goes_on_in_its_folder(models, tmp_path):
    grid = read_grid(grid_file(models, tmp_path))
    first = run_grid(grid, tmp_path / "out")[0]
    (first.run / "chunks").mkdir()
    (first.run / "examples.parquet").rename(first.run / "chunks" / "000000-0.parquet")
    (first.run / "results.json").unlink()
    again = run_grid(grid, tmp_path / "out")[0]
    assert again.run == first.run
    assert Run.open(again.run).complete


def test_a_cell_that_fails_leaves_the_others(models, tmp_path):
    file = grid_file(models, tmp_path, models=[str(tmp_path / "nowhere"), str(models / "one")])
    done = CliRunner().invoke(command, [str(file), "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 1
    rows = json.loads(done.stdout)["rows"]
    assert "nowhere" in rows[0]["problem"]
    assert [row["metric"] for row in rows] == [None, "accuracy", "perplexity"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"models": []}, ConfigError, r"models is \[\]; allowed: a list of one or more"),
        ({"limits": 3}, ConfigError, "unknown field 'limits'; did you mean 'limit'"),
        ({"models": [{"dtype": "float32"}]}, ConfigError, "a name, or a mapping with a name"),
        ({"models": [{"name": "m", "dtyp": "x"}]}, ConfigError, "model field 'dtyp' is unknown"),
        ({"tasks": ["lambada_smaple"]}, TaskError, "did you mean 'lambada_sample'"),
        ({"limit": 0}, ConfigError, "limit is 0"),
    ],
)
def test_mistakes_in_the_file_are_told_before_anything_runs(models, tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        read_grid(grid_file(models, tmp_path, **changes))


def test_the_device_of_models_that_name_none(models, tmp_path):
    names = [str(models / "one"), {"name": str(models / "two"), "device": "meta"}]
    file = grid_file(models, tmp_path, models=names, device="cpu", dtype="float64")
    assert [(m.device, m.dtype) for m in read_grid(file).models] == [("cpu", "float64"), ("meta", "float64")]
    assert [m.device for m in read_grid(file, device="cuda:1").models] == ["cuda:1", "meta"]


def test_a_cell_on_another_device_is_another_run(models, tmp_path):
    """A run on the CPU does not stand for the same model on a GPU, but for one that may run anywhere."""
    on_cpu = read_grid(grid_file(models, tmp_path, models=[str(models / "one")], device="cpu"))
    (result,) = run_grid(on_cpu, tmp_path / "out")
    run = Run.open(result.run)
    assert on_cpu.cells()[0].holds(run)
    assert pd.read_csv(tmp_path / "out" / "summary.csv")["device"].tolist() == ["cpu", "cpu"]
    anywhere, elsewhere = (
        read_grid(grid_file(models, tmp_path, models=[{"name": str(models / "one"), "device": device}]))
        for device in ("auto", "cuda:7")
    )
    assert anywhere.cells()[0].holds(run)
    assert not elsewhere.cells()[0].holds(run)


def test_a_cell_on_any_gpu_is_a_run_on_one_of_them(models, tmp_path):
    run = stored(models, tmp_path, device={"type": "cuda:0"})
    held = {
        device: read_grid(grid_file(models, tmp_path, models=[str(models / "one")], device=device))
        .cells()[0]
        .holds(run)
        for device in ("auto", "cuda", "cuda:0", "cuda:1", "cpu", "gpu")
    }
    assert [device for device, holds in held.items() if holds] == ["auto", "cuda", "cuda:0"]


def test_a_cell_of_another_implementation_is_another_run(models, tmp_path):
    run = stored(models, tmp_path)
    own, other = (
        read_grid(grid_file(models, tmp_path, models=[str(models / "one")], implementation=name)).cells()[0]
        for name in ("hf", "builtin")
    )
    assert own.holds(run)
    assert not other.holds(run)


def stored(models: Path, tmp_path: Path, **record: object) -> Run:
    """The run of the first model, its record changed."""
    (result,) = run_grid(read_grid(grid_file(models, tmp_path, models=[str(models / "one")])), tmp_path / "s")
    run = Run.open(result.run)
    return replace(run, record=replace(run.record, **record))


def test_a_finished_grid_is_summarised_where_its_device_is_missing(models, tmp_path, monkeypatch):
    grid = read_grid(grid_file(models, tmp_path, models=[str(models / "one")], device="cpu"))
    first = run_grid(grid, tmp_path / "out")

    def refuse(device: str) -> None:
        raise ModelError(f"no {device}")

    monkeypatch.setattr("workbench.evaluate.grid.resolve_device", refuse)
    assert [r.run for r in run_grid(grid, tmp_path / "out")] == [r.run for r in first]
    with pytest.raises(ModelError, match="no cpu"):
        run_grid(grid, tmp_path / "new")


def test_two_tables_of_one_name_are_two_tasks(models, tmp_path):
    """Each has its own run, the same table changed too, and both in one grid are refused."""
    tables = [tmp_path / place / "own.jsonl" for place in "xy"]
    for number, table in enumerate(tables):
        write_questions(table, gold=number)

    def gold(*names: Path) -> list[int]:
        grid = read_grid(
            grid_file(models, tmp_path, models=[str(models / "one")], tasks=[str(n) for n in names])
        )
        (result,) = run_grid(grid, tmp_path / "out")
        return Run.open(result.run).examples()["gold"].tolist()

    assert [gold(tables[0]), gold(tables[1]), gold(tables[0])] == [[0], [1], [0]]
    write_questions(tables[0], gold=1)
    assert gold(tables[0]) == [1]
    with pytest.raises(TaskError, match="are both called 'own'"):
        gold(*tables)


def write_questions(path: Path, gold: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"query": "a key is on the", "choices": [" mat", " table"], "gold": gold}))


def test_a_device_that_is_not_there_is_told_before_anything_runs(models, tmp_path):
    done = CliRunner().invoke(
        command, [str(grid_file(models, tmp_path)), "--device", "gpu", "--out", str(tmp_path / "o")]
    )
    assert isinstance(done.exception, ModelError)
    assert "device 'gpu' is not available here; allowed: auto, cpu, cuda" in str(done.exception)
    assert not (tmp_path / "o").exists()


def test_an_unknown_engine_and_a_file_that_is_missing(models, tmp_path):
    with pytest.raises(ConfigError, match="engine is 'slurm'; allowed: local, ray"):
        run_grid(read_grid(grid_file(models, tmp_path)), tmp_path, engine="slurm")
    with pytest.raises(DataError, match="cannot read"):
        read_grid(tmp_path / "none.yaml")


@pytest.mark.skipif(find_spec("ray") is None, reason="pip install ray")
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_two_ray_workers_give_what_one_process_gives(models, tmp_path):
    grid = read_grid(grid_file(models, tmp_path))
    here = summary(run_grid(grid, tmp_path / "here"))
    there = summary(run_grid(grid, tmp_path / "there", engine="ray", workers=2))
    assert there["problem"].isna().all()
    assert there["metric"].tolist() == here["metric"].tolist()
    assert there["value"].tolist() == pytest.approx(here["value"].tolist(), rel=1e-5)
