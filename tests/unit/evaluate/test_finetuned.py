"""Fine-tuning and evaluating in one go, with a tiny encoder."""

from __future__ import annotations

import pytest

from tests.benchmark_files import write_benchmark
from tests.model_folders import save_bert
from workbench.data.glue import GLUE
from workbench.errors import ConfigError, TaskError
from workbench.evaluate import EvaluateSettings, find_task
from workbench.evaluate.finetuned import (
    Finetuned,
    Recipe,
    evaluate_finetuned,
    fine_rows,
    read_recipe,
    trained_as,
)
from workbench.models import Kind, load

QUICK = Recipe("quick", {"epochs": 1, "batch_size": 2, "length": 16, "precision": "float32"}, {})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(save_bert(tmp_path_factory.mktemp("bert")))


def test_two_seeds_give_both_sources_of_error_and_are_not_trained_twice(encoder, tmp_path):
    data = write_benchmark("glue/sst2", tmp_path / "data")
    (data / "SST-2" / "train.tsv").write_bytes((data / "SST-2" / "dev.tsv").read_bytes())
    settings = EvaluateSettings(tasks=("glue/sst2",), data_dir=str(data))
    heard = []
    training = Finetuned(recipe=QUICK, seeds=(0, 1), tell=lambda task, seed, run: heard.append((task, seed)))
    run = evaluate_finetuned(encoder, settings, training, out=tmp_path / "runs", device="cpu", doctor=False)
    assert heard == [("glue/sst2", 0), ("glue/sst2", 1)]
    sources = run.notes["seeds"]["glue/sst2"]["accuracy"]
    assert len(sources["values"]) == 2
    assert run.results["glue/sst2"]["accuracy"].value == pytest.approx(sum(sources["values"]) / 2)
    assert set(sources) == {"values", "item_error", "seed_error"}
    folders = sorted(path.name for path in (tmp_path / "runs").glob("bert*-seed*"))
    assert len(folders) == 2
    alone = evaluate_finetuned(
        encoder, settings, Finetuned(recipe=QUICK), out=tmp_path / "runs", device="cpu", doctor=False
    )
    assert sorted(path.name for path in (tmp_path / "runs").glob("bert*-seed*")) == folders
    assert alone.record.model["kind"] == Kind.CLASSIFIER
    assert alone.results["glue/sst2"]["accuracy"].value == pytest.approx(sources["values"][0])


def test_seeds_that_answer_one_class_leave_matthews_undefined(encoder, tmp_path):
    """A head that has seen a handful of rows once answers one class throughout: the mean over seeds says so."""
    data = write_benchmark("glue/cola", tmp_path / "data")
    settings = EvaluateSettings(tasks=("glue/cola",), data_dir=str(data))
    training = Finetuned(recipe=QUICK, seeds=(0, 1))
    run = evaluate_finetuned(encoder, settings, training, out=tmp_path / "runs", device="cpu", doctor=False)
    found = run.results["glue/cola"]["matthews"]
    values = run.notes["seeds"]["glue/cola"]["matthews"]["values"]
    assert values.count(None) > 0
    assert str(found).startswith("undefined (one seed: every prediction is ")


def test_word_pairs_are_read_out_of_frozen_states(encoder, tmp_path):
    """Two training items with different words can be told apart: the readout finds them again."""
    data = write_benchmark("superglue/wic", tmp_path)
    task = find_task("superglue/wic")
    model = load(encoder, dtype="float32", device="cpu")
    fitted = task.fitted(model, data)
    assert Kind.ENCODER in fitted.kinds
    settings = EvaluateSettings(tasks=("superglue/wic",), data_dir=str(data))
    run = evaluate_finetuned(encoder, settings, out=tmp_path / "runs", device="cpu", doctor=False)
    assert run.results["superglue/wic"]["accuracy"].value == 1.0


def test_rows_of_every_form(tmp_path):
    for name, label in (("glue/cola", "1"), ("superglue/cb", None)):
        folder = write_benchmark(name, tmp_path / name)
        if label is None:
            (folder / "CB/train.jsonl").write_bytes((folder / "CB/val.jsonl").read_bytes())
        rows = fine_rows(find_task(name), folder)
        assert rows.train[0]["label"] == (label or "neutral")
    assert trained_as("glue/ax") == "glue/mnli"
    with pytest.raises(TaskError, match="cannot be learned by a head"):
        fine_rows(find_task("wikitext2"), tmp_path)


def test_the_recipe_of_the_package_has_settings_for_every_glue_task():
    recipe = read_recipe()
    for name in GLUE:
        how = recipe.settings(trained_as(f"glue/{name}"), seed=3)
        assert how.seeds == (3,)
        assert how.epochs >= 2


BAD = {
    "version: 2\n": "version: 1",
    "version: 1\ndefault: {epoch: 3}\n": "unknown setting 'epoch'; did you mean 'epochs'",
    "version: 1\ntasks: [a]\n": "tasks is",
    "version: 1\ndefault: {\n": "not valid YAML",
}


@pytest.mark.parametrize("text", BAD)
def test_a_broken_recipe_is_refused(text, tmp_path):
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(ConfigError, match=BAD[text]):
        read_recipe(tmp_path / "r.yaml")
