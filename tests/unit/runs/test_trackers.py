"""Runs in experiment trackers: a double of Accelerate's tracker, TensorBoard's own files, and missing packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import run_command
from workbench.errors import ConfigError, RunError
from workbench.runs import Run, RunFolder, RunRecord, trackers
from workbench.statistics import proportion

RIGHT = [True, True, False, True]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with one metric, three of four right, and the loss curves of two seeds."""
    record = RunRecord.new(
        "finetune", recipe={"lr": 0.1, "seeds": [0, 1]}, model={"name": "m"}, data={}, seeds={"train": 0}
    )
    folder = RunFolder.create(tmp_path, record)
    folder.append([{"id": "a"}])
    folder.finish({"toy": {"accuracy": proportion(RIGHT)}}, throughput={}, notes={}, order=["a"])
    (folder.path / "log.jsonl").write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": NaN, "lr": 0.05}\n')
    (folder.path / "log-seed1.jsonl").write_text('{"step": 2, "loss": 1.5}\n')
    return Run.open(folder.path)


class Double:
    """Takes what Accelerate's trackers take, and keeps it."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values, **options: self.calls.append((name, *values, *options.values()))


def test_recipe_curves_and_results_are_logged_in_order(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    double = Double()
    monkeypatch.setitem(trackers.TRACKERS, "json", lambda *_: double)  # a package that is installed
    trackers.report_run(run, ["json"])
    names = [name for name, *_ in double.calls]
    assert names == ["start", "store_init_configuration", "log", "log", "log", "log", "finish"]
    configuration = double.calls[1][1]
    assert configuration["recipe.lr"] == 0.1
    assert configuration["recipe.seeds"] == "[0, 1]"
    assert double.calls[2][1:] == ({"train/loss": 2.5}, 1)
    assert sorted(map(str, (call[1:] for call in double.calls[3:5]))) == sorted(
        map(str, [({"train/lr": 0.05}, 2), ({"train-seed1/loss": 1.5}, 2)])
    )
    results, step = double.calls[5][1:]
    wanted = proportion(RIGHT)
    assert results["toy/accuracy"] == 0.75
    assert (results["toy/accuracy_low"], results["toy/accuracy_high"]) == (wanted.low, wanted.high)
    assert step == 2


def test_a_tracker_that_refuses_is_one_line_and_the_run_stays(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise ValueError("no login;\nrun: login")

    monkeypatch.setitem(trackers.TRACKERS, "json", refuse)
    with pytest.raises(
        RunError, match=r"^cannot report to json: no login; run: login; the run itself is stored in .*$"
    ):
        trackers.report_run(run, ["json"])


class Forward(Double):
    """Drops a step that goes back, as W&B does."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, dict[str, float]]] = []

    def log(self, values: dict[str, float], step: int) -> None:
        if not self.kept or step >= self.kept[-1][0]:
            self.kept.append((step, values))


def test_no_step_goes_back_for_a_further_seed_or_a_restart(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    double = Forward()
    monkeypatch.setitem(trackers.TRACKERS, "json", lambda *_: double)
    report = trackers.LiveReport(["json"], run.record, run.path)
    for step in (1, 2, 3, 2, 3, 4):  # again from step 2 on, as after running out of memory
        report.log(step, {"train/loss": step / 10})
    report.log(4, {"train/eval_loss": 0.5})
    for step in (1, 2):
        report.log(step, {"train-seed1/loss": step / 10})
    report.finish(run)
    curve = [(step, {"train/loss": step / 10}) for step in (1, 2, 3, 4)]
    evaluated = [(4, {"train/eval_loss": 0.5})]
    second = [(4 + step, {"train-seed1/loss": step / 10, "train-seed1/step": step}) for step in (1, 2)]
    assert double.kept[:-1] == curve + evaluated + second
    assert double.kept[-1][0] == 6
    assert double.kept[-1][1]["toy/accuracy"] == 0.75


def test_what_was_started_is_closed_when_another_tracker_refuses(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise ValueError("no login")

    first, last = Double(), Double()
    for name, made in (("json", lambda *_: first), ("csv", refuse), ("re", lambda *_: last)):
        monkeypatch.setitem(trackers.TRACKERS, name, made)  # packages that are installed
    with pytest.raises(RunError, match="cannot report to csv: no login"):
        trackers.report_run(run, ["json", "csv", "re"])
    assert [name for name, *_ in first.calls] == ["start", "store_init_configuration", "finish"]
    assert last.calls == []


def test_tensorboard_reads_what_was_reported(run: Run) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    trackers.report_run(run, ["tensorboard"])
    found: dict[str, list[tuple[int, float]]] = {}
    for folder in {path.parent for path in (run.path / "tensorboard").rglob("events.*")}:
        events = reading.EventAccumulator(str(folder)).Reload()
        for tag in events.Tags()["scalars"]:
            found[tag] = [(event.step, event.value) for event in events.Scalars(tag)]
    assert found["toy/accuracy"] == [(2, 0.75)]
    assert found["train/loss"] == [(1, 2.5)]


def test_missing_packages_and_unknown_trackers_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"^reporting to wandb needs its package: pip install wandb$"):
        trackers.check_trackers(["wandb"])
    with pytest.raises(ConfigError, match=r"cannot report to 'wadb'; did you mean 'wandb'"):
        trackers.check_trackers(["wadb"])
    done = run_command("evaluate", "novels-decoder", "--task", "lambada_sample", "--report-to", "mlflow")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "pip install mlflow" in done.stderr


def test_an_evaluation_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    done = run_command(
        *("evaluate", "novels-decoder", "--task", "lambada_sample", "--limit", "3", "--no-doctor"),
        *("--out", str(tmp_path), "--report-to", "tensorboard", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert list(Path(json.loads(done.stdout)["run"]).rglob("events.*"))
