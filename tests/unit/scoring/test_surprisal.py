"""Surprisal, entropy and rank of tokens and words against plain passes of transformers, and the verb."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import workbench
from tests.helpers import assert_near, run_command
from workbench.errors import ConfigError, DataError, ModelError
from workbench.figures import surprisal_view
from workbench.models import LoadedModel
from workbench.scoring.regions import read_sentences, region_table, region_words

TEXT = "She was unbelievably happy, they said. He left."


@pytest.fixture(scope="module")
def decoder() -> LoadedModel:
    return workbench.load("novels-decoder")


@pytest.fixture(scope="module")
def encoder() -> LoadedModel:
    return workbench.load("novels-encoder")


def log_probabilities(model: LoadedModel, text: str) -> tuple[list[int], Tensor]:
    """Ids of BOS, text and EOS, and the log-probabilities (token, vocabulary) behind each but the last."""
    own = model.tokenizer(text, add_special_tokens=False).input_ids
    ids = [model.tokenizer.bos_token_id, *own, model.tokenizer.eos_token_id]
    with torch.no_grad():
        logits = model.model(input_ids=torch.tensor([ids[:-1]])).logits[0]
    return ids, logits.double().log_softmax(-1)


def test_each_token_has_its_bits_entropy_and_rank(decoder: LoadedModel) -> None:
    ids, logs = log_probabilities(decoder, TEXT)
    frame = workbench.surprisal(decoder, TEXT).to_frame()
    chosen = logs[range(len(ids) - 2), ids[1:-1]]
    assert_near(frame["bits"], -chosen.numpy() / np.log(2), 1e-4)
    assert_near(frame["entropy"], -(logs.exp() * logs).sum(-1)[:-1].numpy() / np.log(2), 1e-4)
    ranks = (logs[:-1] > chosen[:, None]).sum(-1) + 1
    assert frame["rank"].tolist() == ranks.tolist()


def test_white_space_behind_a_word_counts_to_it(decoder: LoadedModel) -> None:
    """Pimentel & Meister (2024): p(tokens) times the mass of word beginnings behind, over that in front."""
    ids, logs = log_probabilities(decoder, TEXT)
    pieces = decoder.tokenizer.convert_ids_to_tokens(range(len(decoder.tokenizer)))
    begins = [n for n, piece in enumerate(pieces) if piece.startswith(("▁", "\n"))] + [
        decoder.tokenizer.eos_token_id
    ]
    mass = logs[:, begins].logsumexp(-1).numpy()
    found = workbench.surprisal(decoder, TEXT, word_boundary="trailing")
    expected, place = [], 0
    for word in TEXT.split():
        tokens = len(decoder.tokenizer.tokenize(word))
        own = sum(float(logs[place + n, ids[place + n + 1]]) for n in range(tokens))
        expected.append(-(own + mass[place + tokens] - mass[place]) / np.log(2))
        place += tokens
    assert_near(found.words()["bits"], expected, 1e-4)
    leading = workbench.surprisal(decoder, TEXT).words()["bits"]
    assert_near(found.words()["bits"].sum(), leading.sum() + (mass[0] - mass[-1]) / np.log(2), 1e-4)
    assert "white space trailing" in found.policy


def test_a_masked_models_entropy_is_that_at_the_mask(encoder: LoadedModel) -> None:
    found = workbench.surprisal(encoder, "She was very happy.").to_frame()
    ids = encoder.tokenizer("She was very happy.").input_ids
    for row in found.itertuples():
        masked = torch.tensor([ids])
        masked[0, row.position + 1] = encoder.mask_id
        with torch.no_grad():
            logs = encoder.model(input_ids=masked).logits[0, row.position + 1].double().log_softmax(-1)
        assert_near(row.bits, -float(logs[ids[row.position + 1]]) / np.log(2), 1e-4)
        assert_near(row.entropy, -float((logs.exp() * logs).sum()) / np.log(2), 1e-4)


def test_words_say_where_they_stand_and_the_batch_changes_nothing(decoder: LoadedModel) -> None:
    texts = [TEXT, "The keys to the cabinet are here.", "He left."]
    table = workbench.surprisal(decoder, texts).to_frame()
    assert [" ".join(part["word"]) for _, part in table.groupby("text")] == texts
    for row in table.itertuples():
        assert texts[row.text][row.start : row.start + row.characters] == row.word
    alone = pd.concat([workbench.surprisal(decoder, text).words() for text in texts])
    assert_near(table["bits"], alone["bits"], 1e-5)
    assert_near(table["nats"], alone["bits"] * np.log(2), 1e-5)
    small = workbench.surprisal(decoder, texts, batch_tokens=16).to_frame()
    assert_near(small["entropy"], table["entropy"], 1e-5)


def test_several_texts_are_drawn_on_one_scale_and_escaped(decoder: LoadedModel, tmp_path: Path) -> None:
    texts = ["She was happy.", "<script>alert(1)</script> & zyxwv", "He left."]
    found = workbench.surprisal(decoder, texts)
    view = found.figure()
    top = max(float(np.nanmax(one.bits)) for one in found)
    paragraphs = re.findall(r'<p class="marked">(.*?)</p>', view.html)
    strengths = [[float(n) for n in re.findall(r"--strength:([\d.]+)", part)] for part in paragraphs]
    for one, part in zip(found, strengths, strict=True):
        assert_near(part, np.nan_to_num(one.bits) / top, 1e-3)
    assert [f"{one.total:.1f} bits" in part for one, part in zip(found, paragraphs, strict=True)] == [
        True
    ] * 3
    assert "<script>alert" not in view.html
    assert f'0<span class="key tint positive"></span>{top:+.3g} bits' in view.html  # none is below zero
    assert view.to_frame().groupby("text").size().tolist() == [len(one.tokens) for one in found]
    drawn = [text.get_text() for text in view.draw().axes[0].texts]
    assert len(drawn) == sum(1 + len(one.tokens) for one in found)  # each text behind its bits
    assert f"{found[0].total:.1f} bits" in drawn
    assert view.save(tmp_path / "t.tex").read_text().count("\\par") == 2
    Path(tmp_path / "lines.txt").write_text("\n".join(texts))
    asked = ("surprisal", "novels-decoder", str(tmp_path / "lines.txt"), "--out", str(tmp_path / "s.html"))
    assert run_command(*asked).returncode == 0
    assert (tmp_path / "s.html").read_text().count('class="marked"') == 3
    with pytest.raises(ConfigError, match="0 texts to draw"):
        surprisal_view([])


def test_a_first_token_that_nothing_predicts_is_missing(decoder: LoadedModel) -> None:
    words = workbench.surprisal(decoder, "She was happy.", first_token="unscored").words()
    assert words[["bits", "entropy", "rank"]].isna().all(axis=1).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("0", ["The"]),
        ("1-2", ["keys", "to"]),
        ("abinet", ["cabinet"]),
        ("to the cab", ["to", "the", "cabinet"]),
    ],
)
def test_a_region_is_word_numbers_or_a_phrase(decoder: LoadedModel, region: str, expected: list[str]) -> None:
    found = workbench.surprisal(decoder, "The keys to the cabinet")
    assert [found.alignment.word(n) for n in region_words(region, found, "here")] == expected


@pytest.mark.parametrize(
    ("region", "message"),
    [("5", "0 to 4"), ("3-2", "0 to 4"), ("e", "stands 4 times"), ("x", "stands 0 times"), (" ", "is empty")],
)
def test_a_region_that_is_none_is_said(decoder: LoadedModel, region: str, message: str) -> None:
    found = workbench.surprisal(decoder, "The keys to the cabinet")
    with pytest.raises(DataError, match=f"^here: .*{message}"):
        region_words(region, found, "here")


def test_a_file_of_an_experiment_gives_a_row_a_text_and_keeps_its_cells(
    decoder: LoadedModel, tmp_path: Path
) -> None:
    file = tmp_path / "items.csv"
    file.write_text("item,sentence,roi\n1,The keys to the cabinet are here.,are\n2,He left early.,1-2\n")
    sentences = read_sentences(file, region="roi")
    found = workbench.surprisal(decoder, [one.text for one in sentences])
    table = region_table(sentences, found)
    assert table[["region", "words", "item"]].values.tolist() == [["are", 1, "1"], ["left early.", 2, "2"]]
    assert_near(table["bits"][1], found[1].words()["bits"][1:].sum(), 1e-6)


def test_a_treebank_without_text_comments_is_its_words(tmp_path: Path) -> None:
    rows = ["She PRON 2 nsubj _", "left VERB 0 root SpaceAfter=No", ". PUNCT 2 punct _"]
    lines = []
    for number, row in enumerate(rows, 1):
        form, upos, head, relation, misc = row.split()
        lines.append("\t".join([str(number), form, form, upos, "_", "_", head, relation, "_", misc]))
    file = tmp_path / "trees.conllu"
    file.write_text("\n".join(lines) + "\n\n")
    assert [one.text for one in read_sentences(file)] == ["She left."]


def test_the_verb_prints_and_stores_every_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.tsv").write_text("sentence\troi\nShe was happy.\thappy\nHe left.\t0\n")
    done = run_command(
        "surprisal", "novels-decoder", "items.tsv", "--region-column", "roi", "--out", "w.csv", "--json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(done.stdout)
    stored = pd.read_csv("w.csv")
    assert (
        stored["word"].tolist()
        == [row["word"] for row in answer["words"]]
        == ["She", "was", "happy.", "He", "left."]
    )
    assert stored["in_region"].tolist() == [False, False, True, True, False]
    assert [row["region"] for row in answer["regions"]] == ["happy.", "He"]
    done = run_command("surprisal", "novels-decoder", "She was happy.", "--out", "one.html")
    assert done.returncode == 0
    assert "happ" in Path("one.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("items.csv", "--text-column", "txt"),
            "items.csv, line 2 has no column 'txt'; did you mean 'text'?",
        ),
        (("items.csv", "--region-column", "roi"), "items.csv, line 2 has no column 'roi'"),
        (("missing.csv",), "cannot read missing.csv"),
        (("lines.txt", "--region-column", "roi"), "lines.txt is no table, so it has no column 'roi'"),
        (("",), "the text is empty; give a text in quotes, or a file"),
        (("a text", "--region-column", "roi"), "--region-column is of a FILE; 'a text' is read as a text"),
        (("a text", "--word-boundary", "trail"), "did you mean 'trailing'?"),
        (("a text", "--out", "a.xyz"), ".csv"),
    ],
)
def test_mistakes_are_one_line_before_a_model_is_opened(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text("text,n\none two,1\nthree four,2\n")
    Path("lines.txt").write_text("one two\n")
    monkeypatch.setattr("workbench.models.load", lambda *_, **__: pytest.fail("loaded a model"))
    done = run_command("surprisal", "novels-decoder", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_trailing_white_space_needs_a_causal_model_that_marks_words(
    encoder: LoadedModel, decoder: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="of causal models"):
        workbench.surprisal(encoder, "a text", word_boundary="trailing")
    monkeypatch.setattr(import_module("workbench.scoring.surprisal"), "_SPACES", ("\0",))
    with pytest.raises(ModelError, match="no token of its vocabulary begins with white space"):
        workbench.surprisal(decoder, "a text", word_boundary="trailing")
