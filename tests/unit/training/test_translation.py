"""Pairs of texts: read, encoded, truncated and learned; what is no such pair is said in a line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from tests.unit.training.test_pretraining import place, recipe
from workbench.data.pairs import ParallelPair, pairs_hash, read_pairs
from workbench.errors import ConfigError, DataError
from workbench.text import train_tokenizer
from workbench.training import pretrain
from workbench.training._work import prepare
from workbench.training.objectives import IGNORED
from workbench.training.pair_corpora import PairRows, TokenPairs
from workbench.training.settings import TrainSettings

__all__ = ["place"]  # the fixture

WORDS = {"un": "one", "chat": "cat", "chien": "dog", "noir": "black", "dort": "sleeps"}


@pytest.fixture
def pairs(place: Path) -> Path:
    """Forty pairs as a table and as two files; the targets are the sources' words in reverse."""
    rng = np.random.default_rng(0)
    drawn = [rng.choice(list(WORDS), 4).tolist() for _ in range(40)]
    rows = [{"en": " ".join(WORDS[w] for w in words), "fr": " ".join(reversed(words))} for words in drawn]
    (place / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for column in ("en", "fr"):
        (place / f"pairs.{column}").write_text("".join(row[column] + "\n" for row in rows))
    return place


def settings(place: Path, corpus: str = "pairs.jsonl", **data: Any) -> TrainSettings:
    made = recipe(place, "encoder-decoder", "translation")
    source = replace(
        made.data, corpus=str(place / corpus), text_column="en", target_column="fr", length=40, **data
    )
    return replace(made, data=source)


def test_a_table_and_aligned_files_are_the_same_pairs(pairs: Path) -> None:
    table = read_pairs(pairs / "pairs.jsonl", "en", "fr")
    assert table == read_pairs(pairs / "pairs", "en", "fr")
    assert len(table) == 40
    source = table[0].source.split()
    assert [WORDS[word] for word in reversed(table[0].target.split())] == source
    assert pairs_hash(pairs / "pairs", "en", "fr") != pairs_hash(pairs / "pairs", "fr", "en")


def test_a_batch_has_the_texts_as_the_tokenizer_encodes_them(pairs: Path) -> None:
    work = prepare(settings(pairs), torch.device("cpu"), show=False)
    held_out = read_pairs(pairs / "pairs", "en", "fr")[-1]
    batch = work.objective([work.validation[0]])
    tokenizer = work.corpora.tokenizer
    assert batch["input_ids"][0].tolist() == tokenizer(held_out.source)["input_ids"]
    assert batch["labels"][0].tolist() == [*tokenizer(held_out.target)["input_ids"]]
    assert batch["labels"][0, -1] == tokenizer.eos_token_id
    many = work.objective([work.training[i] for i in range(39)])
    assert many["labels"].shape[0] == 39
    assert (many["labels"] == IGNORED).any()
    assert len(work.validation) == 1  # a hundredth, at least one
    every = [np.concatenate(work.corpora.train.pair(i)).tolist() for i in range(39)]
    read = [work.training[i].ids.tolist() for i in range(39)]
    assert read != every
    assert sorted(read) == sorted(every)  # each pair once an epoch


def test_batches_hold_pairs_of_like_length_and_epochs_every_pair(pairs: Path) -> None:
    """Seven pairs a batch, which does not divide forty: batches that two epochs share stay whole."""
    made = TokenPairs.of(
        [ParallelPair("a" * n, "b" * (n % 9 + 1)) for n in range(1, 41)], train_tokenizer(["a"], "bytes"), ""
    )
    rows = PairRows(made, 99, 120, batch=7)
    read = [rows[i].ids.tolist() for i in range(120)]
    for epoch in (0, 1, 2):
        assert sorted(read[40 * epoch : 40 * epoch + 40]) == sorted(read[:40])
    assert read[:40] != read[40:80]
    spread = [max(sizes) - min(sizes) for sizes in (list(map(len, read[k : k + 7])) for k in range(0, 35, 7))]
    assert max(spread) <= 12  # of lengths from 4 to 51
    assert [rows[i].ids.tolist() for i in range(80, 85)] == read[80:85]


def test_long_texts_are_truncated_and_said(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = ParallelPair("one cat " * 20, "chat un")
    rows = [{"en": long.source, "fr": long.target}, {"en": "one", "fr": "un"}, {"en": "cat", "fr": "chat"}]
    (pairs / "long.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    work = prepare(settings(pairs, "long.jsonl"), torch.device("cpu"), show=False)
    source, target = next(
        np.split(draw.ids, draw.sentences) for i in range(2) if len((draw := work.training[i]).ids) > 40
    )
    tokenizer = work.corpora.tokenizer
    assert source.tolist() == [*tokenizer(long.source)["input_ids"][:39], tokenizer.eos_token_id]
    assert target.tolist() == tokenizer(long.target)["input_ids"]
    pretrain.train(settings(pairs, "long.jsonl"), pairs / "out", device="cpu")
    assert "1 text of the pairs truncated to 40 tokens" in capsys.readouterr().err


def test_it_trains_from_a_vocabulary_of_both_sides_and_generates(pairs: Path) -> None:
    chosen = settings(pairs, "pairs", tokenizer="bpe", vocab_size=120, validation=str(pairs / "pairs"))
    chosen = replace(chosen, optimisation=replace(chosen.optimisation, steps=120, batch_size=8))
    run = pretrain.train(chosen, pairs / "out", device="cpu")
    model = workbench.load(str(pairs / "out"), device="cpu")
    assert model.kind == "seq2seq"
    assert not [token for token in model.tokenizer.get_vocab() if "extra_id" in token]
    for word in ("sleeps", "dort"):
        assert model.tokenizer.unk_token_id not in model.tokenizer(word)["input_ids"]
    assert run.results["training"]["accuracy"].value > 0.5
    first = read_pairs(pairs / "pairs", "en", "fr")[0]
    assert set(workbench.generate(model, first.source, max_tokens=12).text.split()) <= set(WORDS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\n", r"pairs.en has 40 lines and pairs.fr 1; they must be aligned"),
        ("a\n\nb\n", r"pairs.fr, line 2 is empty"),
    ],
)
def test_files_that_are_not_aligned(content: str, message: str, pairs: Path) -> None:
    (pairs / "pairs.fr").write_text(content)
    with pytest.raises(DataError, match=message):
        read_pairs(pairs / "pairs", "en", "fr")


def test_what_is_no_pairs(pairs: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'de'; it has 'en', 'fr'"):
        read_pairs(pairs / "pairs.jsonl", "en", "de")
    with pytest.raises(DataError, match=r"no pairs at .*nowhere: give a table"):
        read_pairs(pairs / "nowhere", "en", "fr")
    (pairs / "blank.jsonl").write_text('{"en": "one", "fr": " "}\n')
    with pytest.raises(DataError, match=r"line 1: 'fr' is ' '; a pair needs a text there"):
        read_pairs(pairs / "blank.jsonl", "en", "fr")


def test_a_target_column_and_the_objective_go_together(pairs: Path) -> None:
    chosen = settings(pairs)
    without = replace(chosen, data=replace(chosen.data, target_column=None))
    with pytest.raises(ConfigError, match="name the column of the targets with --target-column"):
        pretrain.train(without, pairs / "out", device="cpu")
    other = replace(chosen, objective=replace(chosen.objective, name="denoising"))
    with pytest.raises(ConfigError, match="goes with --objective translation, not with denoising"):
        pretrain.train(other, pairs / "out", device="cpu")
