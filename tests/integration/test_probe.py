"""``workbench probe``: experiments on tiny models and on real weights, resumed runs, mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import probes
from probes.settings import PROBES, ProbeKind, Reads
from probes.splits import split_items
from tests.helpers import data_dir, needs_data, needs_minilm
from tests.model_folders import save_bert
from tests.unit.tiny import tiny_causal
from tests.unit.trace.tiny import bert as bert_masked
from workbench.cli import main
from workbench.errors import TaskError
from workbench.models import load
from workbench.runs import Run

Probe = Callable[..., tuple[int, str, str]]


@pytest.fixture
def probe(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    """Runs the verb in a folder of its own; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(["probe", *arguments])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("bert")))


QUICK = ("--data", "builtin", "--limit", "60", "--seeds", "2", "--strengths", "0.01,1")


def test_a_run_holds_every_number_with_its_controls(probe: Probe, bert: str) -> None:
    code, out, err = probe(bert, "--task", "pos", *QUICK, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    run = Run.open(said["run"])
    names = ("accuracy", "control task", "selectivity", "random weights", "baselines", "summary")
    assert set(run.results) == {f"pos/{name}" for name in names}
    assert set(run.results["pos/baselines"]) == {"majority class", "word identity", "static embedding"}
    accuracy, control, gap = (run.results[f"pos/{s}"] for s in ("accuracy", "control task", "selectivity"))
    for layer in ("layer 0", "layer 1", "layer 2"):
        assert gap[layer].value == pytest.approx(accuracy[layer].value - control[layer].value)
        # of right or wrong answers; of means over seeds that differ, the bootstrap
        assert accuracy[layer].method in ("wilson over 12 clusters", "percentile bootstrap over clusters")
    examples = run.examples()
    majority = run.results["pos/baselines"]["majority class"].value
    assert majority == pytest.approx((examples["label"] == examples["label"].mode()[0]).mean(), abs=0.1)
    assert (run.path / "figures" / "pos.html").is_file()


def test_a_stored_run_opens_as_its_report(probe: Probe, bert: str) -> None:
    said = json.loads(probe(bert, "--task", "number", *QUICK, "--json")[1])
    run = Run.open(said["run"])
    report = probes.open_report(run)
    assert report.layers == (0, 1, 2)
    confusion = report.confusion(report.best_layer)
    assert confusion.to_numpy().sum() == len(run.examples())
    wrong = len(report.errors(report.best_layer))
    assert wrong == confusion.to_numpy().sum() - np.trace(confusion.to_numpy())
    frame = report.to_frame()
    assert set(frame["series"]) >= {"accuracy", "selectivity", "majority class"}
    assert report.figure().to_frame()["curve"].nunique() == 4 + 3
    assert str(report).startswith(f"number in {bert}")


def test_a_run_that_was_cut_short_goes_on(probe: Probe, bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from probes import classification

    whole = json.loads(probe(bert, "--task", "pos", *QUICK, "--json", "--out", "whole")[1])
    fitted: list[int] = []
    real = classification.fit_layer

    def dies_at_two(prepared: object, layer: int, settings: object) -> object:
        if layer == 2 and len(fitted) < 3:
            fitted.append(layer)
            raise KeyboardInterrupt
        fitted.append(layer)
        return real(prepared, layer, settings)  # type: ignore[arg-type]

    monkeypatch.setattr(classification, "fit_layer", dies_at_two)
    assert probe(bert, "--task", "pos", *QUICK, "--out", "cut")[0] == 130
    folder = next(Path("cut").iterdir())
    code, out, _ = probe("--resume", str(folder), "--json")
    assert code == 0
    assert fitted == [0, 1, 2, 2]  # the first two layers are not fitted again
    assert json.loads(out)["results"] == whole["results"]
    assert not (folder / "parts").exists()
    code, _, err = probe("--resume", str(folder), "--task", "number")
    assert code == 2
    assert "recipe.task was 'pos'" in err


@pytest.mark.parametrize("kind", ["ridge", "mlp", "knn", "mdl", "scalar_mix", "edge"])
def test_every_kind_of_probe_runs(probe: Probe, bert: str, kind: str) -> None:
    code, out, err = probe(bert, "--task", "arc", "--probe", kind, *QUICK, "--layers", "0,2")
    assert (code, err) == (0, "")
    for control in ("majority class", "word identity", "static embedding", "random weights", "selectivity"):
        assert control in out, control
    assert "does not say that the model uses it" in out
    report = probes.open_report(Run.open(next(Path("runs").iterdir())))
    assert report.confusion(2).to_numpy().sum() == len(report.items.labels)  # type: ignore[union-attr]


def test_structural(probe: Probe, bert: str) -> None:
    code, out, err = probe(bert, "--probe", "structural", *QUICK[:4], "--layers", "1", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["metric"] == "UUAS"
    # each sentence is a tree over its words, so the chain of neighbours finds some of its arcs
    assert 0 < said["results"]["syntax trees/baselines"]["chain of neighbours"]["value"] < 1


def test_over_steps(probe: Probe, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (0, 5):
        save_bert(tmp_path / "trained" / f"step-{step}")
    capsys.readouterr()  # transformers shows a bar while it saves
    code, out, err = probe("trained", "--over-steps", "--task", "pos", *QUICK, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert list(said["runs"]) == ["0", "5"]
    values = {(v["step"], v["layer"]): v["value"] for v in said["values"]}
    assert values[0, 1] == values[5, 1]  # both checkpoints hold the same weights
    again = json.loads(probe("trained", "--over-steps", "--task", "pos", *QUICK, "--json")[1])
    assert again["runs"] == said["runs"]  # used again, not made again
    assert Path(said["figure"]).is_file()
    assert "step-0" in probe("trained@step-*", "--over-steps", "--task", "pos", *QUICK)[1]


BAD = {
    "no model": (["--task", "pos"], "name a MODEL and a --task"),
    "no task": (["MODEL"], "name a --task"),
    "unknown task": (["MODEL", "--task", "poss"], "did you mean 'pos'"),
    "unknown probe": (["MODEL", "--task", "pos", "--probe", "liner"], "did you mean 'linear'"),
    "layer": (["MODEL", "--task", "pos", "--layers", "7", "--limit", "20"], "layers 0 to 2"),
    "layers are words": (["MODEL", "--task", "pos", "--layers", "a"], "write all, 0,3,6 or 0-6"),
    "pool": (["MODEL", "--task", "pos", "--pool", "sum", "--limit", "20"], "unknown pool 'sum'"),
    "split": (["MODEL", "--task", "pos", "--split", "words"], "unknown split 'words'"),
    "strengths": (["MODEL", "--task", "pos", "--strengths", "x"], "write 0.01,1"),
    "negative strength": (["MODEL", "--task", "pos", "--strengths", "-1"], "positive numbers"),
    "one class": (["MODEL", "--task", "table", "--data", "one.csv"], "has only the label 'x'"),
    "many classes": (["MODEL", "--task", "table", "--data", "many.csv"], "use --probe knn"),
    "no file": (["MODEL", "--task", "pos", "--data", "none.conllu"], "none.conllu"),
    "trees by type": (["MODEL", "--probe", "structural", "--split", "type", "--limit", "20"], "many types"),
    "one sentence": (["MODEL", "--task", "pos", "--limit", "1"], "cannot be parted"),
    "resume": (["--resume", "none"], "no run 'none'"),
    "no steps": (["MODEL", "--over-steps", "--task", "pos"], "no checkpoints"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_line_and_exit_2(probe: Probe, bert: str, tmp_path: Path, case: str) -> None:
    (tmp_path / "one.csv").write_text("text,label\n" + "the cat,x\n" * 30)
    (tmp_path / "many.csv").write_text("text,label\n" + "".join(f"the cat,{i}\n" for i in range(50_000)))
    arguments, expected = BAD[case]
    code, out, err = probe(*(bert if a == "MODEL" else a for a in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err


def test_amnesia_of_a_decoder_and_an_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    data = probes.load_task("pos", "builtin", limit=60)
    for model in (tiny_causal(), bert_masked()):
        report = probes.amnesic(model, data, 1)
        assert report.rank == len(set(data.labels)) - 1  # one-hot labels have one degree of freedom less
        assert report.probe_after <= report.majority + 0.05 < report.probe_before
        gap = report.added_loss.value - report.added_loss_random.value
        assert report.difference.value == pytest.approx(gap)
        assert "random directions" in report.conclusion


@needs_minilm
@needs_data
@pytest.mark.weights
@pytest.mark.data
def test_part_of_speech_in_real_weights(probe: Probe) -> None:
    path = str(data_dir() / "ud" / "en_ewt-ud-dev.conllu")
    arguments = ("--task", "pos", "--data", path, "--limit", "200", "--layers", "0,2", "--seeds", "1")
    code, out, err = probe("minilm-l6", *arguments, "--strengths", "0.01,0.1", "--json")
    assert (code, err) == (0, "")
    results = json.loads(out)["results"]
    middle = results["pos/accuracy"]["layer 2"]
    # a trained middle layer reads part of speech far better than word identity or random weights
    assert middle["value"] > 0.85
    assert middle["low"] > results["pos/baselines"]["word identity"]["high"]
    assert middle["low"] > results["pos/random weights"]["layer 2"]["high"]


def test_a_probe_of_ones_own_runs_by_name(bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(PROBES, "_items", dict(PROBES._items))
    PROBES.register("nb", ProbeKind("nb", "Gaussian naive Bayes", Reads.LAYER, True, GaussianNB))
    model = load(bert, dtype="float32", device="cpu")
    data = probes.load_task("pos", "builtin", limit=60)
    report = probes.probe(model, data, probe="nb", seeds=2, layers=(1,), random_weights=False)
    x = probes.extract(model, data.sentences, data.places).layer(1)[data.place_rows[:, 0]]
    y, split = np.array(data.labels), split_items(data, "sentence", 0.2, seed=0)
    expected = GaussianNB().fit(x[split.train], y[split.train]).score(x[split.test], y[split.test])
    assert report.at("accuracy", 1).value == pytest.approx(expected)
    PROBES.register("trees", ProbeKind("trees", "", Reads.TREES, True, GaussianNB))
    with pytest.raises(TaskError, match="that read one layer"):
        probes.probe(model, "pos", probe="trees")
