"""Every kind of head on every shape of model, seeds of data, layers left out, and what stops a fine-tuning."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig

import workbench
import workbench.models.auto
from tests.unit.tiny import WORDS, word_tokenizer
from workbench.errors import ConfigError, DataError, NumericsError, RunError
from workbench.models.configuration import DecoderConfig, EncoderConfig, EncoderDecoderConfig
from workbench.models.parts import AttentionConfig, DepthConfig, FeedForwardConfig
from workbench.runs import Run, trackers
from workbench.training.finetuning import AnswerKind, FineSettings, FineTask, TaskRows, finetune, load_task
from workbench.training.finetuning._trainer import HeadTrainer, class_weights
from workbench.training.finetuning.heads import ask, load_with_head

SHAPES: dict[str, tuple[Any, int | None, str]] = {
    "encoder": (EncoderConfig, None, "AutoModel"),
    "decoder": (DecoderConfig, None, "AutoModelForCausalLM"),
    "encoder-decoder": (EncoderDecoderConfig, 1, "AutoModelForSeq2SeqLM"),
}

ROWS: dict[str, dict[str, Any]] = {
    "class": {"text": "the cat", "label": "yes"},
    "number": {"text": "the cat", "label": 0.5},
    "tokens": {"tokens": ["the", "cat"], "labels": ["O", "B-X"]},
    "span": {"question": "the cat", "context": "the keys are on the table", "answer": "on the"},
    "choice": {"query": "the cat", "choices": ["sat", "on the mat"], "gold": 1},
    "response": {"prompt": "the cat", "response": "sat on the mat"},
}
AUTOS = {
    "class": "SequenceClassification",
    "number": "SequenceClassification",
    "tokens": "TokenClassification",
    "span": "QuestionAnswering",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny random model of each shape."""
    place = tmp_path_factory.mktemp("models")
    for name, (config, decoder_layers, auto) in SHAPES.items():
        torch.manual_seed(0)
        made = config(
            vocab_size=4 + len(WORDS),
            hidden_size=16,
            attention=AttentionConfig(heads=2),
            feed_forward=FeedForwardConfig(size=32),
            depth=DepthConfig(layers=2, decoder_layers=decoder_layers),
            initializer_range=0.2,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1 if decoder_layers else None,
        )
        getattr(transformers, auto).from_config(made).save_pretrained(place / name)
        word_tokenizer().save_pretrained(place / name)
    return place


def rows_of(kind: str, folder: Path) -> TaskRows:
    row = ROWS[kind]
    others = {"class": {"label": "no"}, "number": {"label": 0.1}}.get(kind, {})
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({**row, **(others if i % 2 else {})}) + "\n" for i in range(16)))
    return load_task(str(path), kind=kind)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        *(("encoder", kind) for kind in ("number", "tokens", "span", "choice")),
        *(("decoder", kind) for kind in ("class", "span", "choice", "response")),
        *(("encoder-decoder", kind) for kind in ("class", "tokens", "span", "choice", "response")),
    ],
)
def test_every_shape_takes_every_head(shape: str, kind: str, models: Path, tmp_path: Path) -> None:
    rows = rows_of(kind, tmp_path)
    settings = FineSettings(epochs=1, batch_size=8, lr=0.01, precision="float32")
    run = finetune(str(models / shape), rows, tmp_path / "out", settings, device="cpu")
    assert rows.task.metric in run.results["rows"]
    assert run.throughput["tokens"] > 0
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert log[0]["loss"] > 0
    loaded = workbench.load(str(tmp_path / "out"), dtype="float32", device="cpu")
    expected = {"response": {"decoder": "causal"}.get(shape, "seq2seq")}.get(kind, "classifier")
    assert loaded.kind == expected
    if kind in AUTOS:
        plain = getattr(transformers, f"AutoModelFor{AUTOS[kind]}").from_pretrained(tmp_path / "out").eval()
        ids = torch.tensor([[5, 6, 7]])
        with torch.inference_mode():
            for mine, theirs in zip(
                loaded.model(input_ids=ids).to_tuple()[:1], plain(input_ids=ids).to_tuple()[:1], strict=True
            ):
                torch.testing.assert_close(mine, theirs)


def test_a_choice_is_scored_alone_where_there_is_no_such_head(models: Path) -> None:
    task = FineTask("mc", AnswerKind.CHOICE, "query", "gold", "choices")
    headed = load_with_head(str(models / "decoder"), task)
    assert headed.one_by_one
    model = headed.model.eval()
    ids = torch.tensor([[[5, 6, 7], [5, 8, 9]]])
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([1])}
    output = ask(model, batch, one_by_one=True)
    alone = model(input_ids=ids[:, 1]).logits
    torch.testing.assert_close(output.logits[0, 1], alone[0, 0])
    torch.testing.assert_close(output.loss, -output.logits.log_softmax(-1)[0, 1])


def test_only_the_first_layers_are_kept(models: Path) -> None:
    task = FineTask("t", AnswerKind.CLASS, "text", "label", labels=("no", "yes"))
    headed = load_with_head(str(models / "encoder"), task, layers=1)
    whole = load_with_head(str(models / "encoder"), task)
    assert headed.model.config.num_hidden_layers == 1
    kept = headed.model.state_dict()
    same = [n for n, v in whole.model.state_dict().items() if n in kept and torch.equal(v, kept[n])]
    assert any(".layers.0." in name for name in same)
    assert not any(".layers.1." in name for name in kept)
    assert headed.model.config.id2label == {0: "no", 1: "yes"}
    with pytest.raises(ConfigError, match="layers is 3; allowed: 1 to 2"):
        load_with_head(str(models / "encoder"), task, layers=3)


def test_class_weights_by_hand() -> None:
    """Three of one class and one of the other: 4 / (2 x 3) and 4 / (2 x 1)."""
    task = FineTask("t", AnswerKind.CLASS, "text", "label", labels=("a", "b"))
    weights = class_weights(task, [{"labels": i} for i in (0, 0, 0, 1)])
    assert weights is not None
    torch.testing.assert_close(weights, torch.tensor([4 / 6, 2.0]))
    tokens = replace(task, kind=AnswerKind.TOKENS)
    weights = class_weights(tokens, [{"labels": [0, -100, 0]}, {"labels": [1, 0]}])
    assert weights is not None
    torch.testing.assert_close(weights, torch.tensor([4 / 6, 2.0]))


def test_a_data_set_with_named_classes_is_read_by_its_name(tmp_path: Path) -> None:
    """The datasets package reads a folder as it reads the hub; class numbers become their names."""
    datasets = pytest.importorskip("datasets")
    labels = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features({"review": datasets.Value("string"), "rating": labels})
    for split, size in (("train", 8), ("validation", 4)):
        content = {"review": ["the cat"] * size, "rating": [i % 2 for i in range(size)]}
        datasets.Dataset.from_dict(content, features=features).to_parquet(str(tmp_path / f"{split}.parquet"))
    rows = load_task(f"hub:{tmp_path}", text="review", label="rating")
    assert (len(rows.train), len(rows.validation)) == (8, 4)
    assert rows.task.labels == ("bad", "good")
    assert rows.train[1] == {"review": "the cat", "rating": "good"}
    with pytest.raises(DataError, match="cannot read hub:"):
        load_task(f"hub:{tmp_path / 'nothing'}")


def test_trackers_get_the_curve_of_each_seed(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[tuple[int, list[str], bool]] = []
    finished: list[int] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

        def finish(self) -> None:
            finished.append(len(logged))

        def log(self, values: dict[str, float], step: int) -> None:
            assert not logged or step >= logged[-1][0]  # W&B would drop it
            logged.append((step, sorted(values), (tmp_path / "out" / "results.json").is_file()))

    monkeypatch.setitem(trackers.TRACKERS, "json", lambda *_: Recorder())  # a package that is installed
    settings = FineSettings(epochs=1, batch_size=4, precision="float32", seeds=(0, 1))
    rows = rows_of("class", tmp_path)
    finetune(str(models / "encoder"), rows, tmp_path / "out", settings, device="cpu", report_to=["json"])
    names = [(name.partition("/")[0], stored) for _, values, stored in logged for name in values[:1]]
    assert names[0] == ("train", False)
    assert ("train-seed1", False) in names
    assert [stored for _, _, stored in logged].count(True) == 1  # the results
    assert any("accuracy" in name for name in logged[-1][1])
    assert finished == [len(logged)]
    lines = len(logged)
    logged.clear()
    again = {"device": "cpu", "report_to": ["json"], "resume": True}
    finetune(str(models / "encoder"), rows, tmp_path / "out", settings, **again)  # complete: reported again
    assert len(logged) == lines
    assert any("accuracy" in name for name in logged[-1][1])


def test_a_tracker_that_fails_does_not_take_the_finished_run(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

        def log(self, values: dict[str, float], step: int) -> None:
            raise ConnectionError("no server")

    monkeypatch.setitem(trackers.TRACKERS, "json", lambda *_: Lost())
    settings = FineSettings(epochs=1, batch_size=4, precision="float32")
    rows, out = rows_of("class", tmp_path), tmp_path / "out"
    with pytest.raises(RunError, match="cannot report to json: no server"):
        finetune(str(models / "encoder"), rows, out, settings, device="cpu", report_to=["json"])
    assert Run.open(out).complete


def test_a_loss_that_is_no_number_names_its_step(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = HeadTrainer.training_step

    def broken(self: HeadTrainer, model: Any, *rest: Any) -> Any:
        if self.state.global_step == 2:
            with torch.no_grad():
                next(p for p in model.parameters() if p.requires_grad).fill_(float("nan"))
        return real(self, model, *rest)

    monkeypatch.setattr(HeadTrainer, "training_step", broken)
    settings = FineSettings(epochs=4, batch_size=4, precision="float32")
    with pytest.raises(NumericsError, match="not a number at step 3"):
        finetune(
            str(models / "encoder"), rows_of("class", tmp_path), tmp_path / "out", settings, device="cpu"
        )


def test_out_of_memory_halves_the_rows_and_keeps_the_batch(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, seen = HeadTrainer.compute_loss, []

    def tight(self: HeadTrainer, model: Any, inputs: dict[str, Any], *rest: Any, **options: Any) -> Any:
        if len(inputs["input_ids"]) > 2:
            raise MemoryError
        seen.append((len(inputs["input_ids"]), self.args.gradient_accumulation_steps))
        return real(self, model, inputs, *rest, **options)

    monkeypatch.setattr(HeadTrainer, "compute_loss", tight)
    settings = FineSettings(epochs=1, batch_size=8, precision="float32")
    run = finetune(
        str(models / "encoder"), rows_of("class", tmp_path), tmp_path / "out", settings, device="cpu"
    )
    assert set(seen) == {(2, 4)}
    assert run.complete
    assert "again with 2 rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shape", "kind", "weighted"),
    [
        ("encoder", "tokens", False),
        ("encoder", "class", False),
        ("decoder", "response", False),
        ("encoder", "tokens", True),
        ("encoder", "class", True),
    ],
)
def test_accumulated_batches_are_one_batch(
    shape: str, kind: str, weighted: bool, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step of four rows of unlike length, and of four batches of one row: the same loss and gradient."""
    rows = []
    for place, length in enumerate([1, 2, 3, 4] * 4):
        words = ["the", "cat", "sat", "on"][:length]
        text = " ".join(words)
        rows += [
            {
                "tokens": {"tokens": words, "labels": ["O", "B-X", "O", "O"][:length]},
                "class": {"text": text, "label": "no" if place % 3 else "yes"},
                "response": {"prompt": "the cat", "response": text},
            }[kind]
        ]
    path = tmp_path / "uneven.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    real, found = HeadTrainer.compute_loss, {}
    for most in (4, 1):

        def tight(
            self: HeadTrainer, model: Any, inputs: Any, *rest: Any, most: int = most, **named: Any
        ) -> Any:
            if len(inputs["input_ids"]) > most:
                raise MemoryError
            return real(self, model, inputs, *rest, **named)

        monkeypatch.setattr(HeadTrainer, "compute_loss", tight)
        monkeypatch.setattr(
            HeadTrainer, "log", lambda self, logs, *_, most=most: found.setdefault(most, logs)
        )
        settings = FineSettings(epochs=1, batch_size=4, precision="float32", class_weights=weighted)
        finetune(
            str(models / shape), load_task(str(path), kind=kind), tmp_path / str(most), settings, device="cpu"
        )
    for name in ("loss", "grad_norm"):
        assert float(found[1][name]) == pytest.approx(float(found[4][name]), rel=1e-4)


def test_the_head_is_described_in_the_folder(models: Path, tmp_path: Path) -> None:
    settings = FineSettings(epochs=1, batch_size=8, layers=1, precision="float32")
    finetune(str(models / "encoder"), rows_of("class", tmp_path), tmp_path / "out", settings, device="cpu")
    config = AutoConfig.from_pretrained(tmp_path / "out")
    assert config.id2label == {0: "no", 1: "yes"}
    assert config.num_hidden_layers == 1
