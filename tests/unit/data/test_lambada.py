from __future__ import annotations

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import data_dir, needs_data
from workbench.data import read_lambada, split_target
from workbench.errors import DataError, TaskError


def _folder(tmp_path, *texts: str):
    lines = [json.dumps({"text": text}) for text in texts]
    (tmp_path / "lambada_test.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "context", "target"),
    [
        ("I care about signs", "I care about", " signs"),
        ("two  blanks", "two ", " blanks"),
        ("a no\u00a0break", "a", " no\u00a0break"),  # only U+0020 separates
        ("the end.\n\nThe dog\n\nran", "the end.\n\nThe", " dog\n\nran"),
    ],
)
def test_target_is_what_follows_the_last_ascii_space(text, context, target):
    assert split_target(text) == (context, target)


@given(st.text())
def test_context_and_target_are_the_whole_text_or_an_error(text):
    try:
        context, target = split_target(text)
    except DataError:
        return
    assert context + target == text
    assert target[0] == " "
    assert " " not in target[1:]
    assert context.strip()
    assert target.strip()


@pytest.mark.parametrize("text", ["word", " word", "no\u00a0break"])
def test_one_word_is_refused_with_its_line(tmp_path, text):
    with pytest.raises(DataError, match=r"lambada_test\.jsonl, line 2 has one word only"):
        read_lambada("lambada_openai", _folder(tmp_path, "a good one", text))


def test_a_blank_at_the_end_is_refused(tmp_path):
    with pytest.raises(DataError, match="line 1 ends in a blank"):
        read_lambada("lambada_openai", _folder(tmp_path, "no target "))


def test_lone_surrogate_is_refused_and_a_pair_is_one_character(tmp_path):
    path = _folder(tmp_path, "fine \U0001f600 text")  # json.dumps writes the pair as two escapes
    assert "\\ud83d\\ude00" in (path / "lambada_test.jsonl").read_text()
    assert read_lambada("lambada_openai", path).items[0].text == "fine \U0001f600 text"
    with pytest.raises(DataError, match=r"line 1 has the lone surrogate \\ud800 at character 3"):
        read_lambada("lambada_openai", _folder(tmp_path, "a \ud800 b"))


def test_wrong_and_missing_fields_are_named(tmp_path):
    (tmp_path / "lambada_test.jsonl").write_text('{"passage": "x y"}\n')
    with pytest.raises(DataError, match="line 1: no field 'text'; it has 'passage'"):
        read_lambada("lambada_openai", tmp_path)
    (tmp_path / "lambada_test.jsonl").write_text('{"text": 3}\n')
    with pytest.raises(DataError, match="field 'text' must be a string, is 3"):
        read_lambada("lambada_openai", tmp_path)


def test_a_passage_of_100_000_characters_is_read_whole(tmp_path):
    text = "word " * 20_000 + "end"
    assert read_lambada("lambada_openai", _folder(tmp_path, text)).items[0].text == text


def test_plain_text_lines_with_crlf(tmp_path):
    (tmp_path / "lambada_test_plain_text.txt").write_bytes(b"one two\r\nthree four\r\n")
    data = read_lambada("lambada_standard", tmp_path)
    assert [p.text for p in data] == ["one two", "three four"]
    assert [p.id for p in data] == ["lambada_standard-0000", "lambada_standard-0001"]


def test_identity_depends_on_content_and_order_only(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    one = read_lambada("lambada_openai", _folder(tmp_path / "x", "a b", "c d")).identity
    two = read_lambada("lambada_openai", _folder(tmp_path / "y", "a b", "c d")).identity
    swapped = read_lambada("lambada_openai", _folder(tmp_path / "y", "c d", "a b")).identity
    assert one.sha256 == two.sha256 != swapped.sha256
    assert one.rows == 2


def test_unknown_variant_offers_the_near_names():
    with pytest.raises(TaskError, match="did you mean 'lambada_openai'"):
        read_lambada("lambada_opnai")


def test_without_network_the_way_out_is_told(monkeypatch):
    import datasets

    def unreachable(*args, **kwargs):
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(
        DataError,
        match=r"cannot read hub:EleutherAI/lambada_openai\S*: .*--data-dir.*lambada_sample",
    ):
        read_lambada("lambada_openai")


def test_without_the_datasets_package_the_install_command_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'transformer-workbench\[hub\]'"):
        read_lambada("lambada_standard")


def test_hub_rows_are_checked_too(monkeypatch):
    import datasets

    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: {"text": ["fine text", "oneword"]})
    with pytest.raises(DataError, match="EleutherAI/lambada_openai, row 1 has one word only"):
        read_lambada("lambada_openai")


def test_bundled_sample_is_made_as_its_design_says():
    data = read_lambada("lambada_sample")
    assert len(data) == data.identity.rows == 60
    targets = [split_target(p.text)[1].strip() for p in data]
    assert all(target.isalpha() for target in targets)  # no final punctuation
    repeated = [
        target
        for p, target in zip(data, targets, strict=True)
        if len(re.findall(rf"\b{target}\b", p.text)) > 1
    ]
    assert len(repeated) >= 48  # most targets occur earlier; the rest are implied


@needs_data
@pytest.mark.data
def test_public_test_set_is_complete():
    folder = data_dir() / "lambada"
    openai, standard = read_lambada("lambada_openai", folder), read_lambada("lambada_standard", folder)
    assert len(openai) == len(standard) == 5153  # official size (Paperno et al., 2016)
    assert split_target(openai.items[0].text)[1] == " signs"
    same = sum(
        split_target(a.text)[1].lower() == split_target(b.text)[1].lower()
        for a, b in zip(openai, standard, strict=True)
    )
    assert same >= 5100  # the data's description counts 5,115 equal last words
