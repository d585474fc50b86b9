"""What a training run says about itself: each part of an objective by its name, over all that is held out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import workbench
from tests.unit.training.test_pretraining import place, recipe
from workbench.errors import ConfigError
from workbench.models.heads.masked import TransformerEncoderForReplacedTokenDetection
from workbench.training import pretrain
from workbench.training._measure import measure
from workbench.training._work import prepare
from workbench.training.corpora import HELD_OUT, Corpora, CorpusPart
from workbench.training.settings import TrainSettings

__all__ = ["place"]  # the fixture


def prepared(settings: TrainSettings) -> Any:
    return prepare(settings, torch.device("cpu"), show=False)


def held_out_text(settings: TrainSettings) -> str:
    return "".join(piece.text for piece in CorpusPart(settings.data.corpus, "", part=HELD_OUT).pieces())


def held_out_windows(corpora: Corpora, window: int) -> list[list[int]]:
    """The held-out ids in as few equal windows as hold them, each opened by BOS."""
    ids = np.asarray(corpora.validation.ids).tolist()
    count = -(-len(ids) // window)
    parts = [ids[len(ids) * i // count : len(ids) * (i + 1) // count] for i in range(count)]
    bos = corpora.tokenizer.bos_token_id
    return [part if part[0] == bos else [bos, *part] for part in parts]


@pytest.mark.parametrize("kind", ["bytes", "bpe", "byte-bpe"])
def test_bits_per_character_are_those_of_a_plain_loop_over_all_held_out_text(kind: str, place: Path) -> None:
    """Every token after the first is scored once; the characters are those of the text file."""
    settings = recipe(place)
    settings = replace(settings, data=replace(settings.data, tokenizer=kind, vocab_size=300))
    run = pretrain.train(settings, place / "out", device="cpu")
    model = workbench.load(str(place / "out"), dtype="float32", device="cpu").model
    work = prepared(settings)
    nats, tokens = 0.0, 0
    rows = held_out_windows(work.corpora, work.objective.window)
    for row in rows:
        with torch.inference_mode():
            logits = model(torch.tensor([row])).logits[0, :-1]
        nats += float(F.cross_entropy(logits, torch.tensor(row[1:]), reduction="sum"))
        tokens += len(row) - 1
    found = run.results["training"]
    assert found["loss"].value == pytest.approx(nats / tokens, rel=1e-5)
    assert found["perplexity"].value == pytest.approx(np.exp(nats / tokens), rel=1e-4)
    characters = len(held_out_text(settings))
    assert found["bits_per_character"].value == pytest.approx(nats / np.log(2) / characters, rel=1e-5)
    assert found["bits_per_character"].n == len(rows) > 1


OBJECTIVES = [
    ("decoder", "clm", {"loss", "perplexity", "accuracy"}),
    ("encoder", "mlm", {"loss", "perplexity", "accuracy"}),
    (
        "encoder",
        "next-sentence",
        {"loss", "masked_loss", "masked_perplexity", "masked_accuracy", "pair_loss", "pair_accuracy"},
    ),
    (
        "encoder",
        "replaced-tokens",
        {
            *("loss", "detection_loss", "detection_accuracy"),
            *("generator_loss", "generator_perplexity", "generator_accuracy"),
        },
    ),
    (
        "encoder",
        "span-boundary",
        {
            *("loss", "masked_loss", "masked_perplexity", "masked_accuracy"),
            *("boundary_loss", "boundary_perplexity", "boundary_accuracy"),
        },
    ),
    ("encoder-decoder", "span-corruption", {"loss", "perplexity", "accuracy"}),
]


@pytest.mark.parametrize(("shape", "objective", "names"), OBJECTIVES)
def test_loss_is_what_training_minimises_and_parts_have_names(
    shape: str, objective: str, names: set[str], place: Path
) -> None:
    """On one batch of all held-out rows ``loss`` is the loss that the model itself gives."""
    work = prepared(recipe(place, shape, objective))
    model = work.new_model().eval()
    found = measure(model, work.objective, work.validation, len(work.validation))
    assert set(found) == names
    batch = work.objective([work.validation[i] for i in range(len(work.validation))])
    torch.manual_seed(0)  # the generator's draws
    with torch.inference_mode():
        expected = model(**batch).loss
    assert found["loss"].value == pytest.approx(float(expected), rel=1e-5)
    in_pieces = measure(model, work.objective, work.validation, 2)
    if objective != "replaced-tokens":
        for name in names:  # rows of a pass do not change a number
            assert in_pieces[name].value == pytest.approx(found[name].value, rel=1e-4)


def test_the_accuracy_of_pairs_is_that_of_their_labels(place: Path) -> None:
    work = prepared(recipe(place, "encoder", "next-sentence"))
    model = work.new_model().eval()
    batch = work.objective([work.validation[i] for i in range(len(work.validation))])
    with torch.inference_mode():
        right = model(**batch).seq_relationship_logits.argmax(-1) == batch["next_sentence_label"]
    found = measure(model, work.objective, work.validation, 3)["pair_accuracy"]
    assert found.value == pytest.approx(float(right.float().mean()))


def test_a_folder_says_what_it_holds_and_what_stood_beside_it(place: Path) -> None:
    """ELECTRA's folder holds the discriminator, a student's the student; sizes are those of the opened models."""
    run = pretrain.train(recipe(place, "encoder", "replaced-tokens"), place / "pair", device="cpu")
    opened = TransformerEncoderForReplacedTokenDetection.from_pretrained(place / "pair")
    assert run.record.model["class"] == "TransformerEncoderForReplacedTokenDetection"
    assert run.record.model["parameters"] == opened.num_parameters()
    assert 0 < run.record.model["generator"]["parameters"] < opened.num_parameters()
    teacher = pretrain.train(recipe(place), place / "teacher", device="cpu")
    settings = recipe(place)
    settings = replace(
        settings,
        model=replace(settings.model, set=("width=8",)),
        data=replace(settings.data, tokenizer=None),
        objective=replace(settings.objective, teacher=str(place / "teacher")),
    )
    student = pretrain.train(settings, place / "student", device="cpu")
    loaded = workbench.load(str(place / "student"), dtype="float32", device="cpu")
    assert student.record.model["parameters"] == loaded.num_parameters
    assert student.record.model["teacher"]["parameters"] == teacher.record.model["parameters"]
    assert student.record.model["class"] == teacher.record.model["class"]
    assert {"loss", "task_loss", "task_perplexity", "soft_targets_loss"} <= set(student.results["training"])
    # three passes for the student's step, one for the teacher's answer
    forward = teacher.throughput["flops_per_token"] / 3
    plain = replace(recipe(place), model=settings.model)
    own = pretrain.train(plain, place / "own", device="cpu")
    assert student.throughput["flops_per_token"] == pytest.approx(own.throughput["flops_per_token"] + forward)


@pytest.mark.parametrize("objective", ["next-sentence", "replaced-tokens", "span-boundary"])
def test_a_teacher_without_an_answer_is_refused(objective: str, place: Path) -> None:
    settings = recipe(place, "encoder", objective)
    settings = replace(settings, objective=replace(settings.objective, teacher="novels-encoder"))
    with pytest.raises(ConfigError, match=f"a teacher goes with causal and masked .* not with {objective}"):
        pretrain.train(settings, place / "out", device="cpu")
    assert not (place / "out").exists()
