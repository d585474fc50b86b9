"""Tiny tokenizers of every kind, and the checks that all of them must pass."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from workbench.text import Alignment, TokenizerKind, align, split_words, train_tokenizer

CORPUS = [
    "The cats sit on the mat, and the dog doesn't care.",
    "A naïve café owner in Zürich said: 'the cat sat on the mat again!'",
    "Numbers 1234 and 5678; e-mail me@example.org; 你好 世界 привет мир.",
    "the the the cat cat sat sat on mat the mats cats sitting",
] * 4
SIZES = {
    TokenizerKind.WORDPIECE: 200,
    TokenizerKind.BPE: 200,
    TokenizerKind.BYTE_BPE: 320,
    TokenizerKind.UNIGRAM: 120,
    TokenizerKind.BYTES: None,
}

# Any text, and text dense in what tokenizers treat specially.
TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(
        alphabet="aAtché .,#'▁ĠĊ@<>[]/_😊👩İß한你½\ufffd\u1e9e\ufb01\u3000"
        "\u0301\u0345\u200b\u200d\xad\x00\t\n\U000e0001",
        max_size=40,
    ),
    st.lists(
        st.sampled_from(
            ["[CLS]", "</s>", "<s>", "[UNK]", " ", "cat", "é", "<extra_id_0>", "##", "@@", "</w>"]
        )
    ).map("".join),
)


@cache
def trained(kind: TokenizerKind, role: str = "encoder", lowercase: bool = False) -> Any:
    """A tokenizer of ``kind`` trained on the little corpus."""
    size = SIZES[kind]
    return train_tokenizer(CORPUS, kind, size, role=role, lowercase=lowercase, sentinels=0)


def slow_wordpiece(folder: Path) -> Any:
    """The Python BERT tokenizer (no offsets) with a small vocabulary: lower-cases, strips accents, [UNK]."""
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    letters = list("abcdefghijklmnopqrstuvwxyz0123456789.,!?'#@[]<>/_")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *("##" + c for c in letters),
        "cat",
        "##ing",
    ]
    path = folder / "vocab.txt"
    path.write_text("\n".join(words), encoding="utf-8")
    return BertTokenizerLegacy(str(path))


def slow_ctrl(folder: Path) -> Any:
    """The Python CTRL tokenizer (no offsets): pieces end in ``@@`` inside a word."""
    from transformers import CTRLTokenizer

    names = ["<unk>", *"abct", *(c + "@@" for c in "abct"), "cat", "ca@@"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    (folder / "merges.txt").write_text("#version: 0.2\nc a\nca t</w>\n")
    return CTRLTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))


def check_alignment(alignment: Alignment) -> None:
    """What :class:`Alignment` promises, stated without its own helpers."""
    text = alignment.text
    last_end = 0
    for (start, end), word in zip(alignment.offsets, alignment.word_ids, strict=True):
        assert 0 <= start <= end <= len(text)
        assert end >= last_end, "tokens end in reading order"
        last_end = end
        piece = text[start:end]
        assert piece == piece.strip() or not piece.strip(), "no whitespace around a piece"
        assert word is not None or not piece.strip(), "every piece with a visible character has a word"
        if word is not None:
            assert _overlap((start, end), alignment.words[word])
    owners = {i for start, end in alignment.offsets for i in range(start, end)}
    for w, (start, end) in enumerate(alignment.words):
        visible = {i for i in range(start, end) if not text[i].isspace()}
        first, stop = alignment.token_spans[w]
        if w in alignment.dropped:
            assert first == stop
            assert not visible & owners
            continue
        assert visible <= owners, f"uncovered: {[text[i] for i in sorted(visible - owners)]!r}"
        assert _overlap(alignment.offsets[first], (start, end)), "the range begins with a token of the word"
        assert _overlap(alignment.offsets[stop - 1], (start, end)), "and ends with one"
        outside = [*alignment.offsets[:first], *alignment.offsets[stop:]]
        assert not any(_overlap(span, (start, end)) for span in outside), "and misses none"


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])


def check_all(text: str, tokenizer: Any) -> None:
    """Both word splits, special tokens parsed or not, added or not, and the ids that transformers gives."""
    for punctuation in (False, True):
        alignment = align(text, tokenizer, punctuation=punctuation)
        check_alignment(alignment)
        assert alignment.words == split_words(text, punctuation=punctuation)
    assert list(alignment.ids) == tokenizer(text, truncation=False, padding=False)["input_ids"]
    plain = align(text, tokenizer, add_special_tokens=False, parse_special=False)
    check_alignment(plain)
    check_dropped(plain, tokenizer)


def check_dropped(alignment: Any, tokenizer: Any) -> None:
    """A dropped word alone makes no token that stands for a character of it."""
    for w in alignment.dropped:
        alone = align(alignment.word(w), tokenizer, add_special_tokens=False, parse_special=False)
        assert all(start == end for start, end in alone.offsets)
