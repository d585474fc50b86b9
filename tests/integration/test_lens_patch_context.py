"""``workbench lens``, ``patch`` and ``context``: files, JSON, and one line for a user's mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import data_dir, needs_data, needs_smollm2
from tests.model_folders import save_bart, save_bert, save_llama
from workbench.cli import main

CLEAN, CORRUPTED = "the keys to the cabinet", "the key to the cabinet"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_llama(tmp_path_factory.mktemp("models") / "tiny-llama"))


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bart(tmp_path_factory.mktemp("models") / "tiny-bart"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("models") / "tiny-bert"))


def run(*arguments: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == code


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    run(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    run(*arguments, code=2)
    said = capsys.readouterr().err
    assert said.startswith("workbench: ")
    assert said.count("\n") == 1
    return said


def test_lens_draws_every_view_and_escapes_tokens(
    llama: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for view in ("grid", "trajectory", "attribution"):
        for ending in (".html", ".png", ".csv"):
            out = tmp_path / f"{view}{ending}"
            run(
                "lens", llama, CLEAN, "--target", "are", "--contrast", "is", "--view", view, "--out", str(out)
            )
            assert out.stat().st_size > 100
    page = (tmp_path / "grid.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"']?https?:", page)
    found = printed(capsys, "lens", llama, CLEAN, "--target", "are")
    assert found["tokens"] == CLEAN.split()
    assert found["target rank"][-1] >= 1
    assert len(found["predictions"]) == 3  # embeddings and two layers


def test_lens_of_a_sequence_to_sequence_decoder(bart: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "lens", bart, CLEAN, "--target-text", "the cat")
    assert len(found["predictions"]) == 3
    assert found["tokens"][-1] == "cat"


def test_lens_trains_saves_and_reads_a_tuned_lens(
    llama: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cats sat on the mat and the dogs ran to the table .\n" * 40, encoding="utf-8")
    where = ("--lens-folder", str(tmp_path / "lens"))
    run("lens", llama, CLEAN, "--train", str(corpus), "--steps", "3", *where)
    assert "mean divergence of the layers" in capsys.readouterr().err
    found = printed(capsys, "lens", llama, CLEAN, "--tuned", *where)
    assert found["lens"] == "tuned"
    assert sorted(p.name for p in (tmp_path / "lens").iterdir()) == [
        "tuned_lens.json",
        "tuned_lens.safetensors",
    ]
    assert "no tuned lens" in refused(
        capsys, "lens", llama, CLEAN, "--tuned", "--lens-folder", str(tmp_path / "no")
    )


def test_lens_of_a_neuron(llama: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cats sat\nthe dogs ran to the table\n", encoding="utf-8")
    found = printed(capsys, "lens", llama, "--neuron", "1.3", "--corpus", str(corpus))
    assert len(found["promotion"]["raised"]) == 10
    values = [firing["activation"] for firing in found["firings"]]
    assert values == sorted(values, reverse=True)
    assert "is no neuron" in refused(capsys, "lens", llama, "--neuron", "1")
    assert "out of range" in refused(capsys, "lens", llama, "--neuron", "1.9999")


@pytest.mark.parametrize("method", ["activation", "attribution", "path", "mean_ablation"])
def test_patch_draws_a_grid_by_every_method(
    llama: str, tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "patch.html"
    texts = ("--clean", CLEAN, "--corrupted", CORRUPTED, "--target", "are", "--contrast", "is")
    found = printed(capsys, "patch", llama, *texts, "--site", "head", "--method", method, "--out", str(out))
    assert found["file"] == str(out)
    assert len(found["effects"]) == 8  # two layers, four heads
    assert out.stat().st_size > 1000


def test_patch_names_which_paths_and_which_mean(
    llama: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ("--clean", CLEAN, "--corrupted", CORRUPTED, "--target", "are", "--contrast", "is")
    paths = ("patch", llama, *texts, "--method", "path", "--sender", "0.1")
    cited, frozen = (printed(capsys, *paths, *more) for more in ((), ("--mlps", "frozen")))
    assert cited["name"] == "path patching to output, feed-forward parts recomputed"
    assert frozen["name"] == "path patching to output, feed-forward parts frozen"
    assert cited["effects"][0]["value"] != pytest.approx(frozen["effects"][0]["value"], abs=1e-4)
    samples = tmp_path / "samples.txt"
    samples.write_text(f"{CLEAN}\n{CORRUPTED}\n", encoding="utf-8")
    means = ("patch", llama, *texts, "--method", "mean_ablation", "--mean", "positions", "--samples")
    assert printed(capsys, *means, str(samples))["name"] == "mean ablation (head, mean over positions)"
    samples.write_text("the key\n", encoding="utf-8")
    assert "text 1 has 2 tokens, the pair 5" in refused(capsys, *means, str(samples))
    assert "are of --method path" in refused(capsys, "patch", llama, *texts, "--mlps", "frozen")
    assert "are of --method mean_ablation" in refused(capsys, "patch", llama, *texts, "--mean", "positions")


def test_patch_by_position_names_both_words(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ("--clean", CLEAN, "--corrupted", CORRUPTED, "--target", "are", "--contrast", "is")
    found = printed(capsys, "patch", llama, *texts)
    assert [row["position"] for row in found["effects"][:5]] == [
        "0 the",
        "1 keys|key",
        "2 to",
        "3 the",
        "4 cabinet",
    ]
    last = found["effects"][-1]
    assert (last["layer"], last["position"]) == (1, "4 cabinet")
    assert last["value"] == pytest.approx(1, abs=1e-5)  # the last state decides all
    assert found["effects"][0]["value"] == 0  # before the first difference nothing differs


def test_mistakes_of_lens_and_patch_are_one_line(
    llama: str, bert: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "'zebra' is not in the vocabulary" in refused(capsys, "lens", llama, CLEAN, "--target", "zebra")
    assert "a lens needs a causal or masked or seq2seq model" in refused(capsys, "lens", bert, CLEAN)
    assert "give either a TEXT" in refused(capsys, "lens", llama)
    texts = ("--clean", CLEAN, "--corrupted", "the key", "--target", "are", "--contrast", "is")
    assert "clean has 5 tokens, corrupted 2" in refused(capsys, "patch", llama, *texts)
    texts = ("--clean", CLEAN, "--corrupted", CORRUPTED, "--target", "are")
    assert "head 9 is out of range" in refused(
        capsys, "patch", llama, *texts, "--method", "path", "--sender", "0.9"
    )
    assert "position 9 is out of range" in refused(capsys, "patch", llama, *texts, "--position", "9")
    assert "are of --method path" in refused(capsys, "patch", llama, *texts, "--sender", "0.1")


def test_context_stores_a_run_with_curves(
    llama: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cats sat on the mat and the dogs ran to the table . " * 5, encoding="utf-8")
    options = ("--text-file", str(text), "--limit", "6", "--distances", "1,3", "--out", str(tmp_path))
    found = printed(capsys, "context", llama, *options, "--no-doctor", "--longest", "12")
    assert set(found["results"]) == {
        "text",
        "text/keep",
        "text/shuffle all",
        "text/drop content",
        "text/drop function",
    }
    folder = Path(found["run"])
    assert sorted(p.name for p in (folder / "figures").iterdir()) == [
        "context_accuracy.html",
        "context_increase.html",
        "context_loss.html",
    ]
    again = printed(capsys, "context", "--resume", str(folder))
    assert again["results"] == found["results"]


def test_mistakes_of_context_are_one_line(llama: str, bert: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "name a MODEL and either" in refused(capsys, "context", llama)
    task = ("--task", "lambada_sample", "--no-doctor")
    assert "unknown operation 'mask'" in refused(capsys, "context", llama, *task, "--operations", "mask")
    assert "not a list of numbers" in refused(capsys, "context", llama, *task, "--distances", "few")
    assert "needs a causal model" in refused(capsys, "context", bert, *task)
    assert "did you mean 'lambada_openai'" in refused(capsys, "context", llama, "--task", "lambada_opensi")


@needs_smollm2
@pytest.mark.weights
def test_real_weights_agree_across_an_attractor(capsys: pytest.CaptureFixture[str]) -> None:
    """smollm2-135m: the subject's state carries the number, at first where it stands and at last at the end."""
    texts = ("--clean", "The keys to the cabinet", "--corrupted", "The key to the cabinet")
    found = printed(capsys, "patch", "smollm2-135m", *texts, "--target", " are", "--contrast", " is")
    assert found["clean"] > 0 > found["corrupted"]
    values = {(row["layer"], row["position"].split()[0]): row["value"] for row in found["effects"]}
    assert values[0, "1"] > 0.9
    assert values[29, "4"] == pytest.approx(1, abs=1e-4)


@needs_data
@needs_smollm2
@pytest.mark.data
@pytest.mark.weights
def test_the_nearest_words_are_not_enough_for_lambada(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = data_dir() / "lambada"
    options = ("--task", "lambada_openai", "--data-dir", str(folder), "--limit", "4", "--no-doctor")
    found = printed(
        capsys,
        "context",
        "smollm2-135m",
        *options,
        *("--operations", "keep", "--distances", "5", "--out", str(tmp_path)),
    )
    assert found["results"]["lambada_openai/keep"]["loss increase@5"]["value"] > 1
