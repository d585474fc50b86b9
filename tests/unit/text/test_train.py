"""Trained tokenizers: sizes, special tokens, round trips, numbering, and errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, ByT5Tokenizer

from tests.unit.text.tokenizers_for_tests import CORPUS, SIZES, trained
from workbench.errors import ConfigError, DataError
from workbench.text import TokenizerKind, load_tokenizer, save_tokenizer, sentinel_ids, train_tokenizer

LEARNED = [kind for kind in TokenizerKind if kind is not TokenizerKind.BYTES]
SENTENCE = "The cat sat, naïve 你好!"


@pytest.mark.parametrize("kind", list(TokenizerKind))
@pytest.mark.parametrize("role", ["encoder", "decoder", "seq2seq"])
def test_a_saved_folder_opens_in_transformers_with_the_same_ids(
    kind: TokenizerKind, role: str, tmp_path: Path
) -> None:
    tokenizer = trained(kind, role)
    folder = save_tokenizer(tokenizer, tmp_path / "tok")
    assert sorted(p.name for p in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    for reopened in (AutoTokenizer.from_pretrained(folder), load_tokenizer(folder / "tokenizer.json")):
        assert reopened(SENTENCE) == tokenizer(SENTENCE)
        assert reopened.special_tokens_map == tokenizer.special_tokens_map
        assert len(reopened) == len(tokenizer)


@pytest.mark.parametrize("kind", list(TokenizerKind))
def test_each_role_places_its_special_tokens(kind: TokenizerKind) -> None:
    """The templates of BERT, of GPT with a BOS, and of T5."""
    for role, before, after in (
        ("encoder", ["[CLS]"], ["[SEP]"]),
        ("decoder", ["<s>"], []),
        ("seq2seq", [], ["</s>"]),
    ):
        tokenizer = trained(kind, role)
        inner = tokenizer("cat", add_special_tokens=False).tokens()
        assert tokenizer("cat").tokens() == [*before, *inner, *after]
        assert tokenizer.pad_token_id == 0


def test_an_encoder_pair_has_segments() -> None:
    pair = trained(TokenizerKind.WORDPIECE)("the", "cat")
    assert pair.tokens() == ["[CLS]", "the", "[SEP]", "cat", "[SEP]"]
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("lowercase", [False, True])
def test_the_vocabulary_never_exceeds_the_size_asked_for(kind: TokenizerKind, lowercase: bool) -> None:
    size = {TokenizerKind.BYTE_BPE: 300, TokenizerKind.UNIGRAM: 90}.get(kind, 60)
    tokenizer = train_tokenizer(CORPUS, kind, size, role="seq2seq", sentinels=5, lowercase=lowercase)
    assert len(tokenizer) <= size
    assert max(tokenizer.get_vocab().values()) == len(tokenizer) - 1


@pytest.mark.parametrize("kind", LEARNED)
def test_lowercasing_makes_case_and_accents_equal(kind: TokenizerKind) -> None:
    tokenizer = trained(kind, lowercase=True)
    assert tokenizer("THÉ CAT")["input_ids"] == tokenizer("the cat")["input_ids"]


def test_byte_pair_encoding_merges_the_most_frequent_pair_first() -> None:
    """By hand: in "abab abab cd" the pair a+b occurs four times, every other pair less often."""
    tokenizer = train_tokenizer(["abab abab cd"], "bpe", 200, min_frequency=3)
    learned = {piece for piece in tokenizer.get_vocab() if len(piece) == 2}
    assert learned == {"ab"}


@pytest.mark.parametrize("kind", [TokenizerKind.BYTE_BPE, TokenizerKind.BYTES])
@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=30))
def test_byte_tokenizers_lose_nothing(kind: TokenizerKind, text: str) -> None:
    tokenizer = trained(kind, "decoder")
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.decode(ids) == text


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=30))
def test_raw_bytes_are_numbered_as_in_byt5(text: str) -> None:
    ours = train_tokenizer([], "bytes", role="seq2seq")
    assert ours(text)["input_ids"] == [b + 3 for b in text.encode()] + [1]
    assert ours(text)["input_ids"] == ByT5Tokenizer()(text)["input_ids"]


def test_sentinels_are_numbered_as_in_the_papers() -> None:
    """T5: <extra_id_0> is the last id. ByT5 in transformers: 259 upwards; as published: 258 downwards."""
    t5 = train_tokenizer(CORPUS, "unigram", 120, role="seq2seq", sentinels=3)
    assert sentinel_ids(t5) == (len(t5) - 1, len(t5) - 2, len(t5) - 3)
    bytes_ = train_tokenizer([], "bytes", role="seq2seq")
    assert len(bytes_) == 384 == len(ByT5Tokenizer())
    assert sentinel_ids(bytes_) == sentinel_ids(ByT5Tokenizer()) == tuple(range(259, 384))
    assert sentinel_ids(bytes_, reuse_bytes=True)[:2] == (258, 257)
    assert sentinel_ids(trained(TokenizerKind.BPE)) == ()
    assert t5("a <extra_id_1> b")["input_ids"].count(len(t5) - 2) == 1


@pytest.mark.parametrize("kind", LEARNED)
def test_another_process_learns_the_same_vocabulary(kind: TokenizerKind) -> None:
    script = (
        "from tests.unit.text.tokenizers_for_tests import CORPUS; from workbench.text import train_tokenizer;"
        f"print(train_tokenizer(CORPUS, {kind.value!r}, {SIZES[kind]}).backend_tokenizer.to_str(), end='')"
    )
    here = train_tokenizer(CORPUS, kind, SIZES[kind]).backend_tokenizer.to_str()
    root = Path(__file__).resolve().parents[3]
    there = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", script],
        capture_output=True,
        check=True,
        cwd=root,
        encoding="utf-8",
    )
    assert there.stdout == here


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"kind": "sentencepiece", "vocab_size": 100}, "allowed: wordpiece, bpe, byte-bpe, unigram, bytes"),
        ({"kind": "bpe", "vocab_size": 100, "role": "reader"}, "allowed: encoder, decoder, seq2seq"),
        ({"kind": "bpe"}, "vocab_size is missing"),
        ({"kind": "byte-bpe", "vocab_size": 200}, "needs 261"),
        ({"kind": "unigram", "vocab_size": 50, "sentinels": 48}, "needs 54"),
        ({"kind": "unigram", "vocab_size": 10}, "raise vocab_size"),
        ({"kind": "bytes", "vocab_size": 300}, "fixed vocabulary"),
        ({"kind": "bpe", "vocab_size": 100, "sentinels": -1}, "sentinels is -1"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], fragment: str) -> None:
    with pytest.raises(ConfigError, match=fragment):
        train_tokenizer(CORPUS, **options)


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize(
    ("texts", "fragment"),
    [
        ([], "every text is empty"),
        (["", " \n"], "every text is empty"),
        (["fine", "bad \ud800"], r"text 1 has the lone surrogate \\ud800 at character 5"),
        (["fine", 3], "text 1 must be a str, got int: 3"),
        ("one text", r"write \[text\]"),
    ],
)
def test_a_bad_corpus_is_named(kind: TokenizerKind, texts: Any, fragment: str) -> None:
    with pytest.raises(DataError, match=fragment):
        train_tokenizer(texts, kind, 300)
