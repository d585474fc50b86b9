"""Every objective trains through the command's own path; bad corpora, recipes and checkpoints are told in a line."""

from __future__ import annotations

import gzip
import json
import lzma
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import Trainer

import workbench
from tests.model_folders import save_bart
from workbench.data import corpus_stream
from workbench.data.corpus_stream import split_sentences, stream_corpus
from workbench.data.corpus_tokens import TokenFile, build_token_file
from workbench.errors import ConfigError, DataError, ModelError, NumericsError, RunError
from workbench.runs import Run, trackers
from workbench.text import Role, train_tokenizer
from workbench.training import pretrain
from workbench.training._arguments import training_arguments
from workbench.training.blocks import Blocks
from workbench.training.building import change_fields
from workbench.training.checkpoints import find_checkpoints, mark_complete, resume_point
from workbench.training.corpora import HELD_OUT, TRAIN, CorpusPart, prepare_corpora
from workbench.training.loop import WorkbenchTrainer
from workbench.training.progress import read_log
from workbench.training.settings import (
    DataSource,
    LoopSettings,
    ModelSource,
    ObjectiveChoice,
    Optimisation,
    Schedule,
    TrainSettings,
    parse_steps,
)
from workbench.training.sweep import fit_power_law, parse_variations, ranked, sweep

TEXT = "".join(f"Number {i} came home. The cat sat on mat {i * i % 7}! " for i in range(300))

CONFIGURATION = """
model_type: workbench-{shape}
hidden_size: 16
attention: {{heads: 2}}
positions: {{kind: learned, max_length: 48}}
feed_forward: {{size: 32}}
embeddings: {{segments: {segments}}}
depth: {{layers: 1, decoder_layers: {decoder}}}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a corpus and a configuration of each shape; the cache lies there too."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "corpus.txt").write_text(TEXT)
    for shape in ("decoder", "encoder", "encoder-decoder"):
        content = CONFIGURATION.format(
            shape=shape, segments=2 if shape == "encoder" else 0, decoder=1 if "-" in shape else "null"
        )
        (tmp_path / f"{shape}.yaml").write_text(content)
    return tmp_path


def recipe(place: Path, shape: str = "decoder", objective: str = "clm", **optimisation: Any) -> TrainSettings:
    return TrainSettings(
        model=ModelSource(config=str(place / f"{shape}.yaml")),
        data=DataSource(corpus=str(place / "corpus.txt"), tokenizer="bytes", length=24),
        objective=ObjectiveChoice(name=objective),
        optimisation=Optimisation(**{"steps": 3, "batch_size": 4, "lr": 0.01, **optimisation}),
        loop=LoopSettings(precision="float32", log_every=1, report_to=()),
    )


@pytest.mark.parametrize(
    ("shape", "objective", "kind"),
    [
        ("encoder", "next-sentence", "masked"),
        ("encoder", "replaced-tokens", "detector"),
        ("encoder", "mlm-span", "masked"),
        ("encoder", "span-boundary", "masked"),
        ("encoder-decoder", "span-corruption", "seq2seq"),
        ("encoder-decoder", "denoising", "seq2seq"),
    ],
)
def test_objectives_train_and_their_folders_open(shape: str, objective: str, kind: str, place: Path) -> None:
    run = pretrain.train(recipe(place, shape, objective), place / "out", device="cpu")
    assert np.isfinite(run.results["training"]["loss"].value)
    assert len(run.examples()) == 3
    assert workbench.load(str(place / "out"), dtype="float32", device="cpu").kind == kind


class Recorder:
    """Takes what Accelerate's trackers take; notes whether the run was finished by then."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.logged: list[tuple[int, dict[str, float], bool]] = []
        self.finished = False

    def start(self) -> None: ...

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.configuration = values

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, values, self.results.is_file()))

    def finish(self) -> None:
        self.finished = True


def test_trackers_get_the_curve_while_it_trains(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(place / "out" / "results.json")
    monkeypatch.setitem(trackers.TRACKERS, "json", lambda *_: recorder)  # a package that is installed
    settings = recipe(place)
    settings = replace(settings, loop=replace(settings.loop, report_to=("json",)))
    run = pretrain.train(settings, place / "out", device="cpu")
    during = [(step, values) for step, values, finished in recorder.logged if not finished]
    assert [step for step, _ in during] == [1, 2, 3]
    assert [values["train/loss"] for _, values in during] == run.examples()["loss"].tolist()
    assert recorder.logged[-1][0] == 3  # the results, at the last step
    assert "training/loss" in recorder.logged[-1][1]
    assert recorder.finished
    assert recorder.configuration["verb"] == "train"


def test_a_tracker_that_fails_on_the_way_does_not_end_training(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(place / "out" / "results.json")

    def lost(values: dict[str, float], step: int) -> None:
        raise ConnectionError("no server")

    monkeypatch.setattr(recorder, "log", lost)
    monkeypatch.setitem(trackers.TRACKERS, "json", lambda *_: recorder)
    settings = recipe(place)
    settings = replace(settings, loop=replace(settings.loop, report_to=("json",)))
    with pytest.raises(RunError, match="cannot report to json: no server; the run itself is stored in"):
        pretrain.train(settings, place / "out", device="cpu")
    assert Run.open(place / "out").complete


def test_trackers_are_closed_when_training_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(place / "out" / "results.json")
    monkeypatch.setitem(trackers.TRACKERS, "json", lambda *_: recorder)

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("broken")

    monkeypatch.setattr(WorkbenchTrainer, "train", broken)
    settings = recipe(place)
    settings = replace(settings, loop=replace(settings.loop, report_to=("json",)))
    with pytest.raises(ValueError, match="broken"):
        pretrain.train(settings, place / "out", device="cpu")
    assert recorder.finished
    assert recorder.logged == []


def test_tensorboard_reads_the_curve(place: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = recipe(place)
    settings = replace(settings, loop=replace(settings.loop, report_to=("tensorboard",)))
    run = pretrain.train(settings, place / "out", device="cpu")
    (folder,) = {path.parent for path in (place / "out" / "tensorboard" / "out").glob("events.*")}
    events = reading.EventAccumulator(str(folder)).Reload()
    found = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert [step for step, _ in found] == [1, 2, 3]
    assert [value for _, value in found] == pytest.approx(run.examples()["loss"].tolist(), rel=1e-6)


def test_a_run_that_was_stopped_with_tensorboard_s_files_is_replaced(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    settings = recipe(place)
    settings = replace(settings, loop=replace(settings.loop, report_to=("tensorboard",)))

    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(WorkbenchTrainer, "train", stopped)
        with pytest.raises(KeyboardInterrupt):
            pretrain.train(settings, place / "out", device="cpu")
    assert (place / "out" / "tensorboard").is_dir()
    assert pretrain.train(settings, place / "out", device="cpu").complete


def test_projecting_at_labelled_places_only_changes_no_loss(place: Path) -> None:
    """The same recipe with every place projected, as a compiled model would be, gives the same losses."""
    settings = recipe(place, "encoder", "mlm", steps=4)
    first = pretrain.train(settings, place / "sparse", device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain, "can_skip", lambda *_: False)
        second = pretrain.train(settings, place / "dense", device="cpu")
    losses = [run.examples()["loss"].tolist() for run in (first, second)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert first.throughput["flops_per_token"] < second.throughput["flops_per_token"]


@pytest.mark.parametrize(
    ("shape", "objective"),
    [
        ("decoder", "clm"),
        ("encoder", "mlm"),
        ("encoder", "next-sentence"),
        ("encoder", "replaced-tokens"),
        ("encoder", "span-boundary"),
        ("encoder-decoder", "span-corruption"),
        ("decoder", "distillation"),
        ("bart of transformers", "prefix-lm"),
    ],
)
def test_accumulated_batches_are_one_batch(
    shape: str, objective: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step of four rows, and of four batches of one row: the same loss, and a gradient of the same length."""
    monkeypatch.setattr(  # the generator's draw, the same however rows are batched
        torch.distributions.Categorical, "sample", lambda self: self.logits.argmax(-1)
    )
    settings = recipe(place, shape.split()[0], "clm" if objective == "distillation" else objective, steps=1)
    if shape == "bart of transformers":
        file = save_bart(place / "bart") / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "dropout": 0.0}))
        model, data = ModelSource(model=str(place / "bart")), replace(settings.data, tokenizer=None)
        settings = replace(settings, model=model, data=data)
    else:
        settings = replace(settings, model=replace(settings.model, set=("dropout=0",)))
    if objective == "distillation":
        pretrain.train(
            replace(settings, optimisation=replace(settings.optimisation, steps=20)), place / "teacher"
        )
        choice = ObjectiveChoice(name="clm", teacher=str(place / "teacher"))
        settings = replace(settings, objective=choice, data=replace(settings.data, tokenizer=None))
    found = []
    for rows in (4, 1):
        chosen = replace(settings, loop=replace(settings.loop, micro_batch=rows))
        run = pretrain.train(chosen, place / f"rows-{rows}", device="cpu")
        found.append(run.examples()[["loss", "grad_norm"]].iloc[0].tolist())
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_bfloat16_is_close_to_float32_and_weights_stay_float32(place: Path) -> None:
    settings = recipe(place, "encoder", "mlm")
    first = pretrain.train(settings, place / "whole", device="cpu")
    half = replace(settings, loop=replace(settings.loop, precision="bfloat16"))
    second = pretrain.train(half, place / "half", device="cpu")
    losses = [run.examples()["loss"].to_numpy() for run in (first, second)]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)  # eight bits of mantissa: 0.4 % a product
    assert (losses[0] != losses[1]).any()
    assert {v.dtype for v in load_file(place / "half" / "model.safetensors").values()} == {torch.float32}


def test_a_student_is_distilled_from_a_trained_teacher(place: Path) -> None:
    pretrain.train(recipe(place), place / "teacher", device="cpu")
    settings = recipe(place)
    settings = replace(
        settings,
        data=replace(settings.data, tokenizer=None),
        objective=ObjectiveChoice(teacher=str(place / "teacher")),
    )
    pretrain.train(settings, place / "student", device="cpu")
    assert workbench.load(str(place / "student"), device="cpu").num_parameters > 0


def test_an_objective_of_another_shape_is_refused(place: Path) -> None:
    with pytest.raises(ConfigError, match="trains workbench-encoder models, and the configuration is"):
        pretrain.train(recipe(place, "decoder", "mlm"), place / "out", device="cpu")
    with pytest.raises(ConfigError, match="did you mean 'mlm'"):
        pretrain.train(recipe(place, "encoder", "mlmm"), place / "out", device="cpu")


def test_a_loss_that_is_no_number_stops_and_names_the_step(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third batch is poisoned; the checkpoint of step 2 stays the last good one."""
    from workbench.models.heads import causal

    plain, calls = causal.token_loss, iter(range(1000))

    def poisoned(*arguments: Any) -> torch.Tensor:
        loss = plain(*arguments)
        return loss * float("nan") if next(calls) == 2 else loss

    monkeypatch.setattr(causal, "token_loss", poisoned)
    settings = recipe(place, steps=6)
    settings = replace(settings, loop=replace(settings.loop, save_every=2))
    with pytest.raises(
        NumericsError, match=r"not a number at step 3; the last good checkpoint is .*checkpoint-2"
    ):
        pretrain.train(settings, place / "out", device="cpu")
    assert [c.step for c in find_checkpoints(place / "out")] == [2]


def test_out_of_memory_halves_the_rows_and_keeps_the_batch(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more than one row at a time there is "no memory"; the losses are those of a run that had enough."""
    pretrain.train(recipe(place), place / "enough", device="cpu")
    from workbench.models.heads import causal

    plain = causal.token_loss

    def crowded(logits: torch.Tensor, *more: Any) -> torch.Tensor:
        if torch.is_grad_enabled() and logits.shape[0] > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return plain(logits, *more)

    monkeypatch.setattr(causal, "token_loss", crowded)
    pretrain.train(recipe(place), place / "little", device="cpu")
    losses = [
        [json.loads(line)["loss"] for line in (place / name / "log.jsonl").read_text().splitlines()]
        for name in ("enough", "little")
    ]
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)


def test_a_folder_in_use_is_not_overwritten(place: Path) -> None:
    (place / "out").mkdir()
    (place / "out" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="exists already"):
        pretrain.train(recipe(place), place / "out", device="cpu")


def checkpoint(run: Path, step: int, *, digest: str = "a" * 64, whole: bool = True) -> Path:
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    if whole:
        mark_complete(folder, digest, step)
    return folder


def test_half_written_and_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    good, half = checkpoint(tmp_path, 5), checkpoint(tmp_path, 10, whole=False)
    assert resume_point(tmp_path, "a" * 64).path == good
    with pytest.raises(
        RunError, match=r"cut short while it was written; the last good one is .*checkpoint-5"
    ):
        resume_point(tmp_path, "a" * 64, half)
    with pytest.raises(RunError, match="from another configuration, corpus or tokenizer"):
        resume_point(tmp_path, "b" * 64)
    (good / "model.safetensors").write_bytes(b"weigh")
    with pytest.raises(RunError, match="no whole checkpoint"):
        resume_point(tmp_path, "a" * 64)


def test_checkpoints_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no checkpoints in"):
        workbench.load(f"{tmp_path}@step-3")


def as_file(folder: Path, kind: str) -> Path:
    path = folder / f"corpus.{kind}"
    if kind == "txt.xz":
        path.write_bytes(lzma.compress(TEXT.encode()))
    elif kind == "txt.gz":
        path.write_bytes(gzip.compress(TEXT.encode()))
    elif kind == "txt.zst":
        with pa.output_stream(path, compression="zstd") as stream:
            stream.write(TEXT.encode())
    elif kind == "jsonl":
        path.write_text(json.dumps({"text": TEXT}) + "\n")
    else:
        pq.write_table(pa.table({"text": [TEXT]}), path)
    return path


@pytest.mark.parametrize("kind", ["txt.xz", "txt.gz", "txt.zst", "jsonl", "parquet"])
def test_packed_corpora_read_like_plain_ones(kind: str, tmp_path: Path) -> None:
    assert "".join(piece.text for piece in stream_corpus(as_file(tmp_path, kind))) == TEXT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n \n", "is empty"),
        (b"text\0more", "is binary: a NUL byte at 4"),
        (b"caf\xe9 au lait", "not UTF-8 text.*byte 3"),
        (b"caf\xc3", "ends inside a character"),
    ],
)
def test_a_corpus_that_is_no_text_is_told(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(stream_corpus(tmp_path / "bad.txt"))


def test_a_missing_or_foreign_corpus_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no corpus at"):
        list(stream_corpus(tmp_path / "none.txt"))
    (tmp_path / "notes.pdf").write_bytes(b"%PDF")
    with pytest.raises(DataError, match="holds no file that ends in"):
        list(stream_corpus(tmp_path))
    (tmp_path / "broken.xz").write_bytes(b"not xz")
    with pytest.raises(DataError, match="cannot read corpus"):
        list(stream_corpus(tmp_path / "broken.xz"))


def test_one_endless_line_is_read_in_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither spaces nor line breaks: pieces are cut anywhere, and none is longer than the limit."""
    monkeypatch.setattr(corpus_stream, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(corpus_stream, "PIECE_CHARACTERS", 100)
    for line in ("é" * 30_000, "some words " * 3_000):
        (tmp_path / "line.txt").write_text(line)
        pieces = list(stream_corpus(tmp_path / "line.txt"))
        assert "".join(p.text for p in pieces) == line
        assert max(len(p.text) for p in pieces) <= 200
        assert [p.opens_document for p in pieces].count(True) == 1


def test_documents_and_sentences_are_found(tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("One. Two!\n\nThree.\n\n\n\nOther one.")
    tokenizer = train_tokenizer([TEXT], "bytes", role="decoder")
    file = build_token_file(
        stream_corpus(tmp_path / "two.txt"),
        tokenizer,
        tmp_path / "tokens",
        corpus_sha256="x",
        document_start=tokenizer.bos_token_id,
        document_end=tokenizer.eos_token_id,
    )
    text = [tokenizer.decode(part) for part in np.split(file.ids, file.sentences)[1:]]
    assert text == ["<s>One.", " Two!", "\n\nThree.</s>", "<s>Other one.</s>"]
    assert [tokenizer.decode(file.ids[d : d + 4]) for d in file.documents] == ["<s>One", "<s>Oth"]
    assert (file.info.documents, file.info.dtype) == (2, "uint16")
    assert split_sentences('Mr. Holmes said "No." Then he left.') == [
        'Mr. Holmes said "No."',
        " Then he left.",
    ]


@pytest.fixture
def numbers(tmp_path: Path) -> TokenFile:
    """The ids 0 to 99 as a token file of ten sentences and two documents."""
    for name, values in (("sentences", range(0, 100, 10)), ("documents", (0, 50))):
        np.array(values, dtype=np.int64).tofile(tmp_path / f"{name}.bin")
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    info = {"tokens": 100, "sentences": 10, "documents": 2, "characters": 400, "dtype": "uint16"}
    info |= {"corpus_sha256": "", "tokenizer_sha256": ""}
    (tmp_path / "tokens.json").write_text(json.dumps(info))
    return TokenFile.open(tmp_path)


def test_blocks_read_everything_once_in_an_order_of_their_own(numbers: TokenFile) -> None:
    blocks = Blocks(numbers, 10, 20, seed=3)
    starts = [int(blocks[i].ids[0]) for i in range(20)]
    assert sorted(starts[:10]) == sorted(starts[10:]) == list(range(0, 100, 10))
    assert starts[:10] != starts[10:]
    assert starts == [int(Blocks(numbers, 10, 20, seed=3)[i].ids[0]) for i in range(20)]
    assert Blocks(numbers, 10, 20, seed=3)[4].seed != Blocks(numbers, 10, 20, seed=4)[4].seed


@pytest.mark.parametrize("window", [2, 7, 16, 51, 99, 100, 101, 1000])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_token_is_read_once_an_epoch(window: int, shuffle: bool, numbers: TokenFile) -> None:
    blocks = Blocks(numbers, window, seed=1, shuffle=shuffle)
    parts = [blocks[i].ids.tolist() for i in range(len(blocks))]
    assert sorted(token for part in parts for token in part) == list(range(100))
    assert max(map(len, parts)) <= window
    assert min(map(len, parts)) >= max(map(len, parts)) - 1


def test_a_block_knows_its_sentences_and_documents_and_what_is_elsewhere(numbers: TokenFile) -> None:
    blocks = Blocks(numbers, 25, shuffle=False)
    assert blocks[1].sentences.tolist() == [5, 15]  # 30 and 40
    assert blocks[2].documents.tolist() == [0]  # 50
    others = {int(draw.spare().ids[0]) for draw in (blocks[i] for i in range(4)) if draw.spare}
    assert all(blocks[i].spare().ids[0] != blocks[i].ids[0] for i in range(4))  # type: ignore[misc]
    assert others <= {0, 25, 50, 75}


def test_the_held_out_part_is_seen_by_neither_tokenizer_nor_training(place: Path) -> None:
    """The parts are the text again, and a word that stands at its end only is in no vocabulary."""
    text = TEXT + " Zyzzyva zyzzyvas." * 20
    (place / "corpus.txt").write_text(text)
    for size, held in ((len(text), 1024), (4000, 400), (400_000, 4000)):
        (place / "sized.txt").write_text((text * 30)[:size])
        parts = [
            "".join(p.text for p in CorpusPart(str(place / "sized.txt"), f"{size}", part=part).pieces())
            for part in (TRAIN, HELD_OUT)
        ]
        assert "".join(parts) == (text * 30)[:size]
        assert held - 60 < len(parts[1]) <= held  # from the next sentence on
    source = DataSource(corpus=str(place / "corpus.txt"), tokenizer="wordpiece", vocab_size=200)
    found = prepare_corpora(source, Role.ENCODER, None)
    assert "zy" not in "".join(found.tokenizer.get_vocab()).lower()
    assert found.train.info.characters + found.validation.info.characters == len(text)


# the share of the highest rate at step k of 20, 4 of them warm-up; the formulas are those named at Schedule
SCHEDULES: dict[str, Callable[[int], float]] = {
    "constant": lambda k: 1.0,
    "linear": lambda k: (20 - k) / 16,
    "cosine": lambda k: (1 + math.cos(math.pi * (k - 4) / 16)) / 2,
    "inverse_sqrt": lambda k: math.sqrt(4 / k),
    "wsd": lambda k: 1.0 if k < 16 else (1 + math.cos(math.pi * (k - 16) / 4)) / 2,
}


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_the_learning_rate_follows_its_formula(schedule: str, tmp_path: Path) -> None:
    wanted = Optimisation(steps=20, lr=0.5, schedule=Schedule(schedule), warmup=0.2, decay=0.2, batch_size=1)
    arguments = training_arguments(
        tmp_path, wanted, LoopSettings(report_to=()), rows=1, device=torch.device("cpu"), has_validation=False
    )
    trainer = Trainer(model=torch.nn.Linear(1, 1), args=arguments)
    trainer.create_optimizer()
    scheduler = trainer.create_scheduler(20)
    rates = []
    for _ in range(20):
        rates.append(scheduler.get_last_lr()[0])
        trainer.optimizer.step()
        scheduler.step()
    expected = [k / 4 if k < 4 else SCHEDULES[schedule](k) for k in range(20)]
    assert rates == pytest.approx([0.5 * share for share in expected])


def test_a_schedule_that_is_longer_than_the_training_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"warmup 0\.5 and decay 0\.8 are more than all steps"):
        Optimisation(schedule=Schedule.WSD, warmup=0.5, decay=0.8)


def test_a_token_file_of_another_size_is_refused(numbers: TokenFile) -> None:
    (numbers.path / "tokens.bin").write_bytes(b"12")
    with pytest.raises(DataError, match="has 2 bytes"):
        TokenFile.open(numbers.path)


def test_recipes_go_to_yaml_and_back(place: Path) -> None:
    settings = recipe(place)
    assert TrainSettings.from_yaml(settings.to_yaml()) == settings
    with pytest.raises(ConfigError, match=r"unknown field optimisation\.lrr; did you mean 'lr'"):
        TrainSettings.from_yaml("model: {preset: gpt2}\ndata: {corpus: x}\noptimisation: {lrr: 1}")
    with pytest.raises(ConfigError, match="schedule 'cosin'; did you mean 'cosine'"):
        TrainSettings.from_yaml("model: {preset: gpt2}\ndata: {corpus: x}\noptimisation: {schedule: cosin}")
    with pytest.raises(ConfigError, match="name one of --preset"):
        ModelSource(preset="gpt2", config="x")


def test_recipes_that_come_with_the_package_are_readable() -> None:
    from workbench.training.building import make_config

    folder = Path(pretrain.__file__).parent / "recipes"
    found = sorted(folder.glob("*.yaml"))
    widths = {
        "grammar-bahdanau": 128,
        "grammar-transformer": 128,
        "novels-decoder": 192,
        "novels-encoder": 192,
    }
    assert {p.stem for p in found} == set(widths)
    tokenizer = train_tokenizer(["a"], "bytes")
    for path in found:
        config = make_config(TrainSettings.from_yaml(path.read_text()).model, tokenizer)
        assert config.hidden_size == widths[path.stem]


def test_kept_steps_double() -> None:
    assert parse_steps("0,1,2,4,…", 100) == (0, 1, 2, 4, 8, 16, 32, 64, 100)
    assert parse_steps("10,200", 100) == (10,)
    with pytest.raises(ConfigError, match="keep-steps has 'x'"):
        parse_steps("1,x", 9)


def test_fields_are_changed_by_path_and_short_name() -> None:
    settings = {"hidden_size": 64, "feed_forward": {"size": 256}, "positions": {"kind": "learned"}}
    changed = change_fields(settings, ("positions=rope", "width=32"))
    assert changed == {"hidden_size": 32, "feed_forward": {"size": 128}, "positions": {"kind": "rotary"}}
    optional = {"feed_forward": {"experts": 4}, "norm": {"residual_scale": "rezero"}}
    changed = change_fields(optional, ("feed_forward.experts=none", "norm.residual_scale=none"))
    assert changed == {"feed_forward": {"experts": None}, "norm": {"residual_scale": "none"}}
    with pytest.raises(ConfigError, match=r"did you mean 'positions\.kind'"):
        change_fields(settings, ("positions.knd=rope",))


def test_a_mixture_logs_its_auxiliary_loss_apart(place: Path) -> None:
    """Training's loss has it, validation's has not."""
    source = replace(recipe(place).model, set=("feed_forward.experts=2", "feed_forward.balance=1000"))
    run = pretrain.train(replace(recipe(place), model=source), place / "run", device="cpu")
    rows = [row for row in read_log(run.path / "log.jsonl") if "loss" in row]
    assert all(row["auxiliary_loss"] > 900 and row["loss"] > row["auxiliary_loss"] for row in rows)
    assert run.results["training"]["loss"].value < 50


def test_a_power_law_is_recovered() -> None:
    """Points on (4e5 / N)^0.3 give them back; with a floor of 1.7 added, that too."""
    sizes = np.array([1e4, 3e4, 1e5, 3e5, 1e6])
    exact = fit_power_law(sizes, (4e5 / sizes) ** 0.3, unit="parameters")
    assert (exact.exponent.value, exact.scale) == pytest.approx((0.3, 4e5))
    assert exact(sizes) == pytest.approx((4e5 / sizes) ** 0.3)
    raised = fit_power_law(sizes, 1.7 + (4e5 / sizes) ** 0.3, unit="parameters", with_floor=True)
    assert (raised.exponent.value, raised.floor) == pytest.approx((0.3, 1.7), rel=1e-2)
    with pytest.raises(NumericsError, match="needs 3 different"):
        fit_power_law([1, 2], [2, 1], unit="tokens")


@pytest.fixture
def quick_sweep(place: Path) -> Any:
    variations = parse_variations(["positions=learned,alibi", "heads=2,3"])
    return sweep(recipe(place), variations, place / "sweep", device="cpu")


def test_a_sweep_ranks_what_could_be_trained(quick_sweep: Any, place: Path) -> None:
    assert [row.variant for row in quick_sweep] == [
        "positions=learned, heads=2",
        "positions=learned, heads=3",
        "positions=alibi, heads=2",
        "positions=alibi, heads=3",
    ]
    best = ranked(quick_sweep)
    assert len(best) == 2
    assert best[0].final_loss <= best[1].final_loss
    assert "multiple of attention.heads = 3" in quick_sweep[1].problem
    learned, alibi = quick_sweep[0], quick_sweep[2]
    assert learned.parameters - alibi.parameters == 48 * 16  # the table of positions
    assert json.loads((place / "sweep" / "sweep.json").read_text())[3]["problem"]
