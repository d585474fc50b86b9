"""The bundled translators translate unseen sentences, and their cards say what is measured here again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench
from workbench.analysis.alignment_error import alignment_error
from workbench.data.grammar.invented import invented_pairs
from workbench.models.names import KNOWN_MODELS
from workbench.report import translators

NAMES = ("grammar-bahdanau", "grammar-transformer")


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_made_of_what_is_measured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the first 30 pairs, measured by the card's own function and by hand."""
    pairs = [pair.linked() for pair in invented_pairs(30)]
    rows = [{"source": p.source, "target": p.target, "alignment": str(p.links)} for p in pairs]
    monkeypatch.setattr(translators, "_PAIRS", tmp_path / "test.jsonl")
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = workbench.load(name, dtype="float32", device="cpu")
    card = translators.measure_translator(model, {})
    written = workbench.generate(model, [pair.source for pair in pairs], max_tokens=64)
    right = [one.text.split() == pair.target.split() for one, pair in zip(written, pairs, strict=True)]
    found = card["held_out"]["unseen sentences"]
    assert found["exact_match"]["value"] == pytest.approx(sum(right) / len(right))
    chosen = card["alignment"].pop("chosen")
    judged = alignment_error(model, pairs, step=chosen["step"])
    (head,) = [h for h in judged.heads if (h.layer, h.head) == (chosen["layer"], chosen["head"])]
    assert found["alignment_error"]["value"] == pytest.approx(head.error.value)
    assert set(card["alignment"]) == {"predicts", "reads"}


@pytest.mark.parametrize("name", NAMES)
def test_a_translator_that_ships_is_small_and_right(name: str) -> None:
    """Exact match as its card has it, of 500 sentences that are not in its training data."""
    card = json.loads((KNOWN_MODELS[name].locate() / "card.json").read_text())
    assert (KNOWN_MODELS[name].locate() / "model.safetensors").stat().st_size < 2_000_000
    found = card["held_out"]["unseen sentences"]
    assert found["exact_match"]["n"] == 500
    assert found["exact_match"]["low"] > 0.95
