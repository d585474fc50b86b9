"""Fine-tuning in the small: tables, labels, encoding, metrics, adapters, and every method end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from sklearn.metrics import f1_score, matthews_corrcoef
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
)

import workbench
from tests.helpers import data_dir, needs_data
from tests.model_folders import save_encoder
from tests.unit.tiny import WORDS, word_tokenizer
from workbench.data.tables import read_rows
from workbench.errors import ConfigError, DataError, ModelError, RunError
from workbench.evaluate.metrics import score_labels
from workbench.statistics import wilson
from workbench.training.finetuning import AnswerKind, FineSettings, FineTask, Method, finetune, load_task
from workbench.training.finetuning.adapters import add_adapters, merge_adapters
from workbench.training.finetuning.encoding import collate, encode
from workbench.training.finetuning.metrics import compute_metrics


def test_a_quote_in_a_tsv_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes('\ufeffx\ty\r\n"a\tb"\r\n'.encode())
    assert read_rows(tmp_path / "a.tsv") == [{"x": '"a', "y": 'b"'}]


def test_a_row_with_a_cell_too_few_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\ty\n1\t2\n3\n")
    with pytest.raises(DataError, match=r"line 3 has 1 cells; expected 2 \(x, y\)"):
        read_rows(tmp_path / "a.tsv")


@needs_data
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "train", "dev"),
    [
        ("mrpc", 3668, 408),
        ("cola", 8551, 1043),
        ("sst2", 20000, 872),
        ("rte", 2490, 277),
        ("stsb", 5749, 1500),
        ("wnli", 635, 71),
    ],
)
def test_glue_has_its_rows(name: str, train: int, dev: int) -> None:
    """The counts are those of the data's README."""
    rows = load_task(name, data_dir() / "glue")
    assert (len(rows.train), len(rows.validation)) == (train, dev)


def table(folder: Path, rows: list[dict[str, Any]]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_labels_missing_mistyped_or_all_the_same(tmp_path: Path) -> None:
    good = [{"text": "a", "label": 0}, {"text": "b", "label": 1}] * 5
    with pytest.raises(DataError, match="row 11: no 'label'"):
        load_task(
            table(tmp_path, [*good, {"text": "c"}]), validation=Path(table(tmp_path, [*good, {"text": "c"}]))
        )
    with pytest.raises(DataError, match="label is 'high', not a finite number"):
        load_task(table(tmp_path, [{"text": "a", "label": "high"}] * 9), kind="number")
    with pytest.raises(DataError, match="every label is '0'"):
        load_task(table(tmp_path, [{"text": "a", "label": 0}] * 9))
    with pytest.raises(ConfigError, match="unknown kind 'klass'"):
        load_task(table(tmp_path, good), kind="klass")
    with pytest.raises(DataError, match="did you mean 'mrpc'"):
        load_task("mprc")


def test_only_the_response_is_scored() -> None:
    task = FineTask("chat", AnswerKind.RESPONSE, "prompt", "response")
    tokenizer = word_tokenizer()
    (row,) = encode([{"prompt": "the cat", "response": "sat"}], task, tokenizer, 32)
    scored = [i for i in row["labels"] if i != -100]
    assert tokenizer.convert_ids_to_tokens(scored) == ["sat", "</s>"]
    assert row["input_ids"][-2:] == scored


def test_words_are_labelled_at_their_first_piece() -> None:
    from workbench.text import train_tokenizer

    tokenizer = train_tokenizer(["aaab aab ab"] * 9, "wordpiece", 12)  # letters only: "aab" is three pieces
    task = FineTask("pos", AnswerKind.TOKENS, "tokens", "labels", labels=("X", "Y"))
    (row,) = encode([{"tokens": ["ba", "b"], "labels": ["Y", "X"]}], task, tokenizer, 32)
    pieces = tokenizer.convert_ids_to_tokens(row["input_ids"])
    assert [(p, y) for p, y in zip(pieces, row["labels"], strict=True) if y != -100] == [("b", 1), ("b", 0)]


def test_spans_point_at_the_answer() -> None:
    tokenizer = word_tokenizer()
    task = FineTask("qa", AnswerKind.SPAN, "question", "answer", "context")
    source = {"question": "the cat", "context": "the keys are on the table", "answer": "on the"}
    (row,) = encode([source], task, tokenizer, 32)
    inside = row["input_ids"][row["start_positions"] : row["end_positions"] + 1]
    assert tokenizer.decode(inside) == "on the"
    with pytest.raises(DataError, match="does not stand in the context"):
        encode([{**source, "answer": "under"}], task, tokenizer, 32)


def test_choices_are_padded_to_one_block() -> None:
    features = [
        {"input_ids": [[5, 6], [5, 6, 7]], "labels": 1},
        {"input_ids": [[5], [6], [7, 8]], "labels": 0},
    ]
    ids = collate(features, 0)["input_ids"]
    assert ids.shape == (2, 3, 3)
    assert ids[0].tolist() == [[5, 6, 0], [5, 6, 7], [0, 0, 0]]


def test_metrics_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    found = compute_metrics(AnswerKind.CLASS, predicted.tolist(), gold.tolist())
    assert found["f1"].value == pytest.approx(f1_score(gold, predicted))
    assert found["matthews"].value == pytest.approx(matthews_corrcoef(gold, predicted))
    three, answers = rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    for kept in (three, three % 2):  # in the second, a class is predicted that is never right
        found = compute_metrics(AnswerKind.CLASS, answers.tolist(), kept.tolist())
        assert found["macro_f1"].value == pytest.approx(f1_score(kept, answers, average="macro"))
        assert found["matthews"].value == pytest.approx(matthews_corrcoef(kept, answers))


def test_fine_tuning_and_evaluation_give_one_number_for_one_metric() -> None:
    """Value and interval of labels, numbers and answers; evaluation's are held to scikit-learn and SQuAD's rule."""
    rng = np.random.default_rng(1)
    gold, predicted = rng.integers(0, 3, 50).tolist(), rng.integers(0, 3, 50).tolist()
    names = ["accuracy", "matthews", "macro_f1"]
    assert compute_metrics(AnswerKind.CLASS, predicted, gold) == score_labels(names, predicted, gold)
    scores = rng.normal(size=50)
    noisy = (scores + rng.normal(size=50)).tolist()
    found = compute_metrics(AnswerKind.NUMBER, noisy, scores.tolist())
    assert found == score_labels(["pearson", "spearman"], noisy, scores.tolist())
    answers, wanted = ["the Normans.", "France", "in  1066"], ["Normans", "Paris", "the year 1066"]
    found = compute_metrics(AnswerKind.SPAN, answers, wanted)
    assert found["exact_match"].value == pytest.approx(1 / 3)  # articles and full stops do not count
    assert found["f1"].value == pytest.approx((1 + 0 + 0.5) / 3)  # "in 1066", "year 1066": 1 of 2 and 1 of 2


def test_spans_of_labels_by_hand() -> None:
    found = compute_metrics(AnswerKind.TOKENS, [["B-A", "O"]], [["B-A", "B-A"]])
    assert found["span_f1"].value == pytest.approx(2 / 3)  # 1 of 1 predicted, 1 of 2 gold


def bert() -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4 + len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
        initializer_range=0.3,
        pad_token_id=0,
    )
    return BertForSequenceClassification(config).eval()


def gpt2() -> Any:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=2, n_positions=32, pad_token_id=0)
    return transformers.GPT2ForSequenceClassification(config).eval()


@pytest.mark.parametrize("make", [bert, gpt2], ids=["bert", "gpt2"])
def test_adapters_change_nothing_at_first_and_merge_exactly(make: Any, tmp_path: Path) -> None:
    model, ids = make(), torch.randint(4, 20, (3, 7))
    before = model(ids).logits
    assert add_adapters(model, 5) == 2
    torch.testing.assert_close(model(ids).logits, before, atol=0, rtol=0)
    for name, parameter in model.named_parameters():
        if ".up" in name or ".down" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    changed = model(ids).logits
    assert not torch.allclose(changed, before)
    merge_adapters(model)
    torch.testing.assert_close(model(ids).logits, changed)
    model.save_pretrained(tmp_path)
    opened = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(opened(ids).logits, changed)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A tiny built-in encoder with random weights, and its tokenizer."""
    return save_encoder(tmp_path / "encoder")


def cats_or_keys(folder: Path) -> str:
    rows = [
        {"text": f"{a} the {b}", "label": label} for label, b in ((0, "cat"), (1, "keys")) for a in WORDS * 3
    ]
    return table(folder, rows)


@pytest.mark.parametrize("method", ["full", "head", "lora", "adapter", "prompt"])
def test_every_method_learns_and_its_folder_opens(method: str, encoder: Path, tmp_path: Path) -> None:
    rows = load_task(cats_or_keys(tmp_path))
    settings = FineSettings(
        method=Method(method), epochs=6, batch_size=16, lr=0.02, virtual_tokens=4, precision="float32"
    )
    run = finetune(str(encoder), rows, tmp_path / "out", settings, device="cpu")
    # one word decides the label; a frozen random body hides it from a head, and more so from a prompt
    least = {"head": 0.6, "prompt": 0.0}.get(method, 0.9)
    assert run.results["rows"]["accuracy"].value >= least
    assert list(run.examples()["text"]) == [row["text"] for row in rows.validation]
    assert run.throughput["trained_parameters"] <= run.throughput["all_parameters"] * 1.5
    first = json.loads((tmp_path / "out" / "log.jsonl").read_text().splitlines()[0])
    assert first["tokens_per_second"] > 0
    assert "utilisation" not in first  # a device's peak is not known here, and no number stands for it
    loaded = workbench.load(str(tmp_path / "out"), dtype="float32", device="cpu")
    assert loaded.kind == "classifier"
    ids = loaded.tokenizer("on the cat", return_tensors="pt")["input_ids"]
    answer = loaded.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    assert answer.shape == (1, 2)
    if method != "prompt":
        plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
        torch.testing.assert_close(plain(ids).logits, answer)
        assert plain.config.id2label == {0: "0", 1: "1"}
    with pytest.raises(RunError, match="exists already"):
        finetune(str(encoder), rows, tmp_path / "out", settings)


def test_several_seeds_give_mean_and_spread_and_patience_keeps_the_best(
    encoder: Path, tmp_path: Path
) -> None:
    rows = load_task(cats_or_keys(tmp_path))
    settings = FineSettings(
        epochs=2, lr=0.004, seeds=(0, 1, 2), patience=1, class_weights=True, precision="float32"
    )
    run = finetune(str(encoder), rows, tmp_path / "out", settings, device="cpu")
    per_seed = [metrics["accuracy"] for metrics in run.notes["seeds"].values()]
    accuracy = run.results["rows"]["accuracy"]
    assert len(set(per_seed)) > 1
    assert accuracy.value == pytest.approx(np.mean(per_seed))
    # seeds' error and items' error (Wilson 1927: the width of each interval), added as variances
    items = np.mean([wilson(round(value * 11), 11).standard_error ** 2 for value in per_seed])
    assert accuracy.standard_error == pytest.approx((np.var(per_seed, ddof=1) / 3 + items) ** 0.5)
    assert accuracy.n == len(rows.validation) == 11


def test_checkpointed_activations_give_the_same_weights_and_a_schedule_others(
    encoder: Path, tmp_path: Path
) -> None:
    rows = load_task(cats_or_keys(tmp_path))

    def trained(name: str, **options: Any) -> dict[str, torch.Tensor]:
        settings = FineSettings(epochs=1, lr=0.01, warmup=0.0, precision="float32", **options)
        finetune(str(encoder), rows, tmp_path / name, settings, device="cpu")
        return load_file(tmp_path / name / "model.safetensors")

    plain, again = trained("plain"), trained("again", gradient_checkpointing=True)
    for name, weights in plain.items():
        torch.testing.assert_close(again[name], weights, atol=1e-6, rtol=1e-5)
    constant = trained("constant", schedule="constant")
    assert any(not torch.allclose(constant[name], weights, atol=1e-4) for name, weights in plain.items())
    with pytest.raises(ConfigError, match="did you mean 'cosine'"):
        FineSettings(schedule="cosin")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="schedule wsd is of workbench train"):
        FineSettings(schedule="wsd")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="label_smoothing is 1"):
        FineSettings(label_smoothing=1.0)


def test_what_does_not_go_together_is_told(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'lora'"):
        FineSettings(method="lorra")  # type: ignore[arg-type]
    chat = table(tmp_path, [{"prompt": "the", "response": "cat"}] * 9)
    with pytest.raises(ModelError, match="cannot be fine-tuned on rows"):
        finetune(str(encoder), load_task(chat, kind="response"), tmp_path / "out")
    assert not (tmp_path / "out").exists()  # free for the next try
