"""Bundling: what ships, what its card says, and the tables of the bundled classifiers."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import workbench
from tests.helpers import data_dir, needs_data
from tests.model_folders import save_encoder
from tests.unit.tiny import WORDS
from workbench.errors import RunError
from workbench.models import names
from workbench.training import bundle as bundling
from workbench.training.bundle import bundle
from workbench.training.classifier_data import generated_pairs
from workbench.training.finetuning import FineSettings, finetune, load_task


@pytest.fixture(scope="module")
def fine_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuned tiny encoder in ``run`` and its table in ``rows.jsonl``."""
    place = tmp_path_factory.mktemp("bundle")
    save_encoder(place / "encoder")
    rows = [{"text": f"the {w}", "label": "ab"[w in WORDS[:9]]} for w in WORDS * 2]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = FineSettings(epochs=2, batch_size=8, lr=0.02, precision="float32")
    finetune(
        str(place / "encoder"), load_task(str(place / "rows.jsonl")), place / "run", settings, device="cpu"
    )
    return place


def test_a_bundled_classifier_is_small_and_says_how_it_was_made(
    fine_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bundled" / "tiny-classifier"
    held_out = {"rows": fine_run / "rows.jsonl"}
    more = {"licence": "made up", "held_out": held_out, "note": "shared machine"}
    bundle(fine_run / "run", "tiny-classifier", "a test", folder, **more)  # type: ignore[arg-type]
    assert {v.dtype for v in load_file(folder / "model.safetensors").values()} == {torch.float16}
    card = json.loads((folder / "card.json").read_text())
    assert card["command"].startswith("workbench finetune ")
    assert "--epochs 2 " in card["command"]
    assert "--batch-size 8 " in card["command"]
    assert card["hardware"].endswith("shared machine")
    assert card["tokens_seen"] > 0
    assert card["loss_curve"]
    assert card["data_licence"] == "made up"
    run = workbench.load(str(fine_run / "run"), dtype="float32", device="cpu")
    shipped = workbench.load(str(folder), dtype="float32", device="cpu")
    ids = torch.tensor([[5, 6]])
    torch.testing.assert_close(shipped.model(ids).logits, run.model(ids).logits, atol=1e-2, rtol=1e-2)
    rows = [json.loads(line) for line in (fine_run / "rows.jsonl").read_text().splitlines()]
    found = [shipped.model(**shipped.tokenizer(r["text"], return_tensors="pt")).logits.argmax() for r in rows]
    right = sum(shipped.config.id2label[int(f)] == r["label"] for f, r in zip(found, rows, strict=True))
    assert card["held_out"]["rows"]["accuracy"]["value"] == pytest.approx(right / len(rows))
    monkeypatch.setattr(names, "__file__", str(tmp_path / "names.py"))
    listed = names._bundled()["tiny-classifier"]
    assert f"accuracy on rows {right / len(rows):.3g} [" in listed.measured


def test_too_large_or_unfinished_runs_are_refused(fine_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError):
        bundle(fine_run / "encoder", "x", "a test", fine_run / "x", licence="made up")
    monkeypatch.setattr(bundling, "MOST_WEIGHT_BYTES", 100)
    with pytest.raises(RunError, match="MB of weights; bundled models have at most 8"):
        bundle(fine_run / "run", "x", "a test", fine_run / "x", licence="made up")
    assert not (fine_run / "x").exists()


def test_generated_pairs_are_different_balanced_and_reproducible() -> None:
    rows = generated_pairs(300)
    assert rows == generated_pairs(300)
    assert len({(r["premise"], r["hypothesis"]) for r in rows}) == 300
    counts = {
        label: sum(r["label"] == label for r in rows) for label in ("entailment", "neutral", "contradiction")
    }
    assert min(counts.values()) > 70  # a hundred each, four standard deviations of 8.2 below
    for row in rows:  # only a contradiction changes whether it was done
        denied = ["not" in row[side].split() for side in ("premise", "hypothesis")]
        assert (denied[0] != denied[1]) == (row["label"] == "contradiction")


@pytest.mark.parametrize("name", [m for m in names.KNOWN_MODELS if names.KNOWN_MODELS[m].measured])
def test_bundled_models_keep_their_size_and_open_by_name(name: str) -> None:
    folder = names.KNOWN_MODELS[name].locate()
    assert (folder / "model.safetensors").stat().st_size <= 8_000_000
    card = json.loads((folder / "card.json").read_text())
    told = {
        "command",
        "recipe",
        "seed",
        "data",
        "hardware",
        "hours",
        "tokens_seen",
        "loss_curve",
        "data_licence",
    }
    assert told <= set(card)
    assert len(card["data_licence"]) > 20
    loaded = workbench.load(name, dtype="float32", device="cpu")
    assert loaded.name == name
    output = loaded.model(**_inputs(loaded))
    assert torch.isfinite(output.logits).all()


def _inputs(loaded: workbench.LoadedModel) -> dict[str, torch.Tensor]:
    ids = loaded.tokenizer("She was not at home.", return_tensors="pt")["input_ids"]
    return {"input_ids": ids, **({"labels": ids} if loaded.config.is_encoder_decoder else {})}


def test_all_bundled_models_together_are_small() -> None:
    root = Path(names.__file__).parent / "bundled"
    assert sum(f.stat().st_size for f in root.rglob("*") if f.is_file()) <= 40 << 20


@needs_data
def test_the_tables_command_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["classifier_data", "sentiment", str(data_dir()), str(tmp_path)])
    monkeypatch.delitem(sys.modules, "workbench.training.classifier_data")
    runpy.run_module("workbench.training.classifier_data", run_name="__main__")
    rows = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in tmp_path.iterdir()}
    assert rows == {
        "sentiment-plain": 18_000,
        "sentiment-train": 23_000,
        "sentiment-validation": 2_000,
        "sentiment-sst2": 872,
        "sentiment-synthetic": 1_000,
    }
