"""Losses beside plain cross-entropy: rows mixed, and attention led to marked words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BartConfig, BertConfig, GPT2Config

import workbench
from tests.model_folders import save_encoder
from tests.unit.analysis.saliency_models import tiny_classifier
from tests.unit.tiny import WORDS
from workbench.data.grammar import adjectives
from workbench.errors import ConfigError, DataError
from workbench.training.classifier_data import masked_phrases, synthetic_phrases
from workbench.training.finetuning import AnswerKind, FineSettings, FineTask, finetune, load_task
from workbench.training.finetuning._losses import HeadLoss, attention_loss, check_losses, mix_rows
from workbench.training.finetuning.encoding import collate, encode

TASK = FineTask("words", AnswerKind.CLASS, "text", "label", labels=("0", "1"), rationale="marked")


def test_attention_loss_by_hand() -> None:
    even = torch.full((2, 3, 4, 4), 0.25)  # two rows, three heads
    even[0, :, 0] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    marked = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 0]])
    # row 0: the first token pays 0.3 to the marked one, which pays itself 0.25; row 1 has no mark
    expected = -(torch.tensor(0.3).log() + torch.tensor(0.25).log()) / 2
    torch.testing.assert_close(attention_loss([even, even], marked), expected)
    assert float(attention_loss([even], torch.zeros_like(marked))) == 0.0


def test_mixed_rows_are_shares_of_both() -> None:
    model = tiny_classifier().model
    batch = {
        "input_ids": torch.tensor([[5, 6, 7], [8, 9, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
        "labels": torch.tensor([0, 1]),
    }
    vectors = model.get_input_embeddings()(batch["input_ids"])
    shares = set()
    for seed in range(8):
        torch.manual_seed(seed)
        inputs, labels = mix_rows(model, dict(batch), 1.0)
        torch.testing.assert_close(labels.sum(1), torch.ones(2))
        for row in range(2):
            share = labels[row, row]  # of its own label
            assert 0.5 <= share <= 1
            mixed = share * vectors[row] + (1 - share) * vectors[1 - row]
            torch.testing.assert_close(inputs["inputs_embeds"][row], mixed)
            shares.add(round(float(share), 4))
            assert inputs["attention_mask"][row].tolist() == [1, 1, 1] or share == 1
        assert {"input_ids", "labels"}.isdisjoint(inputs)
    assert min(shares) < 0.9  # something was mixed


def test_without_anything_asked_the_loss_is_the_models_own() -> None:
    model, ids = tiny_classifier().model, torch.tensor([[5, 6, 7]])
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([1])}
    loss, output = HeadLoss()(model, batch)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(output.logits, batch["labels"]))
    weighted, _ = HeadLoss(weights=torch.tensor([1.0, 3.0]))(model, batch)
    torch.testing.assert_close(weighted, loss)  # a mean over one row


def test_smoothed_labels_by_hand() -> None:
    """Szegedy et al. 2016, equation 5: 0.8 of the loss of the label, and 0.2 of the mean loss over the two classes."""
    model, ids = tiny_classifier().model, torch.tensor([[5, 6, 7]])
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([1])}
    loss, output = HeadLoss(smoothing=0.2)(model, batch)
    losses = -output.logits.log_softmax(-1)[0]
    torch.testing.assert_close(loss, 0.8 * losses[1] + 0.2 * losses.mean())


def test_marks_of_words_are_those_of_their_tokens() -> None:
    from workbench.text import train_tokenizer

    tokenizer = train_tokenizer(["aaab aab ab"] * 9, "wordpiece", 12)  # letters only: "aab" is two pieces
    rows = [{"text": "aab b", "label": "1", "marked": "[1, 0]"}, {"text": "b", "label": "0"}]
    features = encode(rows, TASK, tokenizer, 32)
    batch = collate(features, 0)
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    assert [t for t, m in zip(tokens, batch["marked"][0].tolist(), strict=True) if m] == ["a", "##ab"]
    assert batch["marked"].sum(1).tolist() == [2, 0]
    (cut,) = encode([{"text": "b aab", "label": "1", "marked": [0, 1]}], TASK, tokenizer, 4)
    assert cut["marked"] == [0, 0, 1, 0]  # [CLS] b a [SEP]
    with pytest.raises(
        DataError, match="words, row 1: a rationale has a 0 or 1 for each of the 2 words, this one 1"
    ):
        encode([{"text": "aab b", "label": "1", "marked": [1]}], TASK, tokenizer, 32)
    for wrong in ("high", [0.7, 0], [2, 0]):
        with pytest.raises(DataError, match="words, row 1: a rationale is a list of 0 and 1, is "):
            encode([{"text": "aab b", "label": "1", "marked": wrong}], TASK, tokenizer, 32)


def table(folder: Path, marked: bool) -> str:
    """One word decides the label."""
    rows = [
        {"text": f"{a} the {b}", "label": label, **({"marked": [0, 0, 1]} if marked else {})}
        for label, b in ((0, "cat"), (1, "keys"))
        for a in WORDS * 3
    ]
    path = folder / f"rows{marked}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def to_the_last_word(folder: Path) -> float:
    """Attention of the first token to the last word, mean of layers and heads."""
    loaded = workbench.load(str(folder), dtype="float32", device="cpu")
    loaded.model.set_attn_implementation("eager")
    inputs = loaded.tokenizer("on the keys", return_tensors="pt")
    ids = inputs["input_ids"]
    with torch.no_grad():
        found = loaded.model(input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True)
    place = ids[0].tolist().index(loaded.tokenizer.convert_tokens_to_ids("keys"))
    return float(torch.stack([weights[0, :, 0, place].mean() for weights in found.attentions]).mean())


def test_attention_goes_where_it_is_led(tmp_path: Path) -> None:
    save_encoder(tmp_path / "encoder", layers=2)
    led = {}
    for rationale in (None, "marked"):
        settings = FineSettings(
            epochs=6, batch_size=16, lr=0.02, mixup=1.0, precision="float32", rationale_weight=0.5
        )
        rows = load_task(table(tmp_path, rationale is not None), rationale=rationale)
        out = tmp_path / f"out{rationale}"
        run = finetune(str(tmp_path / "encoder"), rows, out, settings, device="cpu")
        assert run.results[rows.task.name]["accuracy"].value >= 0.9
        assert (run.record.recipe["rationale"], run.record.recipe["mixup"]) == (rationale, 1.0)
        led[rationale] = to_the_last_word(out)
    assert led["marked"] > 0.8 > led[None]


def test_what_does_not_go_together_is_told(tmp_path: Path) -> None:
    for name, value in (("mixup", -1.0), ("rationale_weight", -0.5)):
        with pytest.raises(ConfigError, match=f"{name} is {value}; allowed: 0 or more"):
            FineSettings(**{name: value})  # type: ignore[arg-type]
    plain = FineTask("words", AnswerKind.CLASS, "text", "label", labels=("0", "1"))
    mixed = FineSettings(mixup=1.0)
    check_losses(mixed, plain, BertConfig())
    with pytest.raises(ConfigError, match="mixup goes with encoders, not gpt2"):
        check_losses(mixed, plain, GPT2Config())
    with pytest.raises(ConfigError, match="mixup goes with encoders, not bart"):  # which fills blanks, too
        check_losses(mixed, plain, BartConfig())
    with pytest.raises(ConfigError, match="a rationale column goes with encoders, not gpt2"):
        check_losses(FineSettings(), TASK, GPT2Config())
    with pytest.raises(ConfigError, match="mixup goes with kind class and one text a row"):
        check_losses(mixed, FineTask("n", AnswerKind.NUMBER, "text", "label"), BertConfig())
    with pytest.raises(DataError, match="no row has 'mark'; it has text, label, marked"):
        load_task(table(tmp_path, marked=True), rationale="mark")


def test_in_a_synthetic_phrase_the_marked_word_decides() -> None:
    polarity: dict[str, Any] = {}
    for kind in ("general", "text", "event", "idea"):
        polarity |= {a.text: a.polarity for a in adjectives(kind) if a.polarity != "neutral"}
    rows = synthetic_phrases(500, seed=3)
    assert len({row["text"] for row in rows}) == 500
    assert {row["label"] for row in rows} == {"negative", "positive"}
    for row in rows:
        words = row["text"].split()
        (place,) = [i for i, mark in enumerate(row["marked"]) if mark]
        assert polarity[words[place]] == row["label"]
        assert [w for w in words if w in polarity] == [words[place]]  # and no other
    assert rows == synthetic_phrases(500, seed=3)
    assert all(set(row["text"].split()) == {"[MASK]"} for row in masked_phrases(50))
