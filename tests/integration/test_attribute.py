"""``workbench attribute`` as a user calls it: files, tables, runs that resume, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.model_folders import save, save_bert, save_llama
from tests.unit.analysis.saliency_models import tiny_classifier
from workbench.analysis.faithfulness_run import SaliencySettings, evaluate_saliency, read_texts
from workbench.cli import main
from workbench.models import load
from workbench.runs import Run

ROWS = (
    "sentence\tlabel\tmarks",
    "the cats ran on the mat\t1\t0 1 1 0 0 0",
    "keys are on the mat\t1\t1 0 0 0 1",
    "cat\t0\t1",
)
TABLE = "".join(f"{row}\n" for row in ROWS)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    save_llama(root / "llama")
    save_bert(root / "bert")
    classifier = tiny_classifier()
    save(classifier.model, classifier.tokenizer, root / "classifier")
    (root / "table.tsv").write_text(TABLE)
    return root


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["attribute", *map(str, arguments)])
    output = capsys.readouterr()
    return int(stopped.value.code or 0), output.out, output.err


def test_a_text_becomes_a_page_with_its_scores(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "map.html"
    arguments = ("--target", "are", "--contrast", "is", "--method", "occlusion", "--out", page)
    code, out, _ = run(capsys, models / "llama", "the keys to the cabinet", *arguments)
    assert code == 0
    assert "log p('are') - log p('is')" in out
    assert [line.split()[0] for line in out.splitlines()[4:9]] == ["the", "keys", "to", "the", "cabinet"]
    assert page.read_text().count('class="plus"') + page.read_text().count('class="minus"') == 5
    for suffix in ("png", "svg", "tex", "csv"):
        assert (
            run(
                capsys, models / "llama", "cats ran", "--method", "random", "--out", tmp_path / f"m.{suffix}"
            )[0]
            == 0
        )
        assert (tmp_path / f"m.{suffix}").stat().st_size > 0


def test_attacks_say_what_they_changed_and_the_classes(capsys: pytest.CaptureFixture[str]) -> None:
    text = "A wonderful film about nothing"
    for attack in ("hotflip", "rewrites", "input_reduction"):
        code, out, _ = run(capsys, "sentiment-encoder", text, "--attack", attack, "--json")
        found = json.loads(out)
        assert (code, found["original"], found["labels"][0]) == (0, text, "positive")
        assert _classes([text, found["changed"]]) == found["labels"]
        if attack == "hotflip":
            assert (found["success"], found["words_changed"], found["labels"][1]) == (True, 1, "negative")
    code, _, err = run(capsys, "sentiment-encoder", text, "--attack", "hotflip", "--pair", "b")
    assert (code, err.count("\n")) == (2, 1)


def _classes(texts: list[str]) -> list[str]:
    """The likeliest class of each text by a plain forward pass."""
    model = load("sentiment-encoder")
    inputs = [model.tokenizer(text, return_tensors="pt") for text in texts]
    return [model.config.id2label[int(model.model(**one).logits[0].argmax())] for one in inputs]


def test_several_methods_as_json(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys,
        models / "llama",
        "cats ran",
        "--target",
        "on",
        "--method",
        "saliency,random",
        "--words",
        "--json",
    )
    assert code == 0
    found = json.loads(out)["attributions"]
    assert [a["method"] for a in found] == ["saliency", "random"]
    assert found[0]["tokens"] == ["cats", "ran"]
    assert found[0]["level"] == "word"


def test_a_text_is_judged_by_the_named_methods(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, models / "classifier", "the cats ran", "--evaluate", "--method", "saliency", "--json"
    )
    assert code == 0
    found = json.loads(out)["evaluation"]
    measures, agreement, randomised = found.values()
    assert list(measures) == list(agreement) == list(randomised) == ["saliency", "random"]
    assert agreement["saliency"]["saliency"] == pytest.approx(1.0)
    stages = list(randomised["random"].values())
    assert stages == pytest.approx([1.0] * len(stages))  # blind to the weights
    assert measures["random"]["randomised"] == pytest.approx(1.0)


def test_a_table_is_judged_and_stored_and_resumed(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (
        "--data",
        models / "table.tsv",
        "--evaluate",
        "--method",
        "saliency",
        "--rationale-column",
        "marks",
    )
    code, out, _ = run(capsys, models / "classifier", *arguments, "--out", tmp_path, "--json")
    assert code == 0
    stored = Run.open(json.loads(out)["run"])
    assert set(stored.results) == {"saliency", "random", "saliency - random"}
    assert stored.results["random"]["randomised"].value == pytest.approx(1.0)  # blind to the weights
    assert stored.results["saliency"]["plausibility_f1"].n == 2  # the text of one word, all marked, has none
    examples = stored.examples()
    assert list(examples["id"]) == ["1", "2", "3"]
    assert len(examples["saliency: scores"][0]) == 8  # six words, <s>, </s>
    again, out, _ = run(capsys, models / "classifier", *arguments, "--resume", stored.path)
    assert again == 0
    assert "comprehensiveness" in out


def test_a_run_that_was_cut_short_ends_with_the_same_numbers(models: Path, tmp_path: Path) -> None:
    model = load(str(models / "classifier"), dtype="float32")
    settings = SaliencySettings(data=str(models / "table.tsv"), methods=("occlusion",))
    whole = evaluate_saliency(model, settings, out=tmp_path / "a")
    cut = evaluate_saliency(model, settings, out=tmp_path / "b")
    (cut.path / "results.json").unlink()  # as if killed after the second text
    (cut.path / "chunks").mkdir()
    pd.DataFrame(cut.examples()[:2]).to_parquet(cut.path / "chunks" / "000000-00000000.parquet")
    (cut.path / "examples.parquet").unlink()
    resumed = evaluate_saliency(model, settings, resume=cut.path)
    assert resumed.results == whole.results
    assert len(read_texts(settings)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{llama}", "cats ran", "--target", "zebra"], "not in the vocabulary"),
        (["{llama}", "cats ran", "--method", "salience"], "did you mean 'saliency'"),
        (["{bert}", "cats ran"], "without a head"),
        (["{llama}", "cats ran", "--unit", "paragraph"], "unknown unit"),
        (
            ["{llama}", "cats ran", "--target", "on", "--method", "layer_conductance", "--layer", "9"],
            "layers 0 to 1",
        ),
        (["{llama}", "cats ran", "--target", "on", "--method", "random", "--out", "m.docx"], "suffix"),
        (["{llama}", "cats ran", "--method", "lime", "--samples", "2000000"], "--yes"),
        (["{llama}"], "give either a TEXT"),
        (["{classifier}", "--data", "{table}"], "--data needs --evaluate"),
        (
            ["{classifier}", "--data", "{table}", "--evaluate", "--label-column", "lable"],
            "did you mean 'label'",
        ),
        (["{classifier}", "--data", "{nothing}", "--evaluate"], "cannot read"),
        (["{classifier}", "cats ran", "--target", "LABEL_5"], "no class 'LABEL_5'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    models: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {name: str(models / name) for name in ("llama", "bert", "classifier")}
    places |= {"table": str(models / "table.tsv"), "nothing": str(models / "no.tsv")}
    code, out, err = run(capsys, *(argument.format(**places) for argument in arguments))
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_a_text_that_the_model_cannot_read_whole_is_explained_as_far_as_it_goes_and_that_is_said(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(
        capsys, models / "classifier", "cat " * 100, "--method", "saliency,occlusion", "--json"
    )
    assert code == 0
    assert [len(found["tokens"]) for found in json.loads(out)["attributions"]] == [64, 64]
    assert err.count("note: 1 of 1 text longer than") == 1
    assert "38 tokens truncated" in err  # 100 + 2 special tokens - 64
