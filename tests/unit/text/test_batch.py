"""Padded batches and their policy on special tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from transformers import ByT5Tokenizer

from tests.unit.text.tokenizers_for_tests import check_alignment, trained
from workbench.errors import ConfigError, DataError
from workbench.text import TokenizerKind, encode_batch

# Byte tokens are easy to write by hand: id = byte + 3; <s> is 259, </s> 1, <pad> 0.
DECODER, SEQ2SEQ = trained(TokenizerKind.BYTES, "decoder"), trained(TokenizerKind.BYTES, "seq2seq")
A, B = ord("a") + 3, ord("b") + 3


@pytest.mark.parametrize(
    ("side", "ids", "mask"),
    [
        ("right", [[259, A, B], [259, A, 0]], [[1, 1, 1], [1, 1, 0]]),
        ("left", [[259, A, B], [0, 259, A]], [[1, 1, 1], [0, 1, 1]]),
    ],
)
def test_padding_on_either_side(side: Any, ids: list[list[int]], mask: list[list[int]]) -> None:
    batch = encode_batch(["ab", "a"], DECODER, padding_side=side)
    assert batch.input_ids.tolist() == ids
    assert batch.attention_mask.tolist() == mask
    for row, alignment in enumerate(batch.alignments):
        assert batch.input_ids[row, batch.columns(row)].tolist() == list(alignment.ids)
        check_alignment(alignment)


@pytest.mark.parametrize(
    ("tokenizer", "policy", "text", "ids"),
    [
        (DECODER, "model", "a", [259, A]),
        (DECODER, "model", "<s>a", [259, A]),  # spelled out already: not doubled
        (DECODER, "bos", "<s>a", [259, A]),
        (DECODER, "none", "a", [A]),
        (SEQ2SEQ, "model", "a", [A, 1]),
        (SEQ2SEQ, "model", "a</s>", [A, 1]),
        (SEQ2SEQ, "none", "a</s>", [A, 1]),
        (ByT5Tokenizer(), "model", "a", [A, 1]),
        (SEQ2SEQ, "model", "", [1]),
    ],
)
def test_each_special_token_appears_once(tokenizer: Any, policy: str, text: str, ids: list[int]) -> None:
    assert encode_batch([text], tokenizer, special_tokens=policy).input_ids.tolist() == [ids]


def test_special_tokens_in_the_text_can_be_left_literal() -> None:
    batch = encode_batch(["<s>a"], DECODER, parse_special=False)
    assert batch.input_ids.tolist() == [[259, *(b + 3 for b in b"<s>a")]]


def test_empty_texts_without_special_tokens_make_an_empty_row() -> None:
    batch = encode_batch(["", "a"], DECODER, special_tokens="none")
    assert batch.attention_mask.tolist() == [[0], [1]]
    assert batch.input_ids.dtype == np.int64


def test_the_policy_agrees_with_transformers() -> None:
    for kind in TokenizerKind:
        for role in ("encoder", "decoder", "seq2seq"):
            tokenizer = trained(kind, role)
            texts = ["The cat sat", "naïve"]
            expected = tokenizer(texts, padding=True)
            batch = encode_batch(texts, tokenizer)
            assert batch.input_ids.tolist() == expected["input_ids"]
            assert batch.attention_mask.tolist() == expected["attention_mask"]


@pytest.mark.parametrize(
    ("texts", "options", "error", "fragment"),
    [
        ([], {}, DataError, "no texts to encode"),
        ("ab", {}, DataError, r"write \[text\]"),
        (["a", "\ud800"], {}, DataError, "text 1 has the lone surrogate"),
        (["a", "abcd"], {"max_length": 4}, DataError, "text 1 has 5 tokens; at most 4"),
        (["a"], {"special_tokens": "all"}, ConfigError, "allowed: model, bos, none"),
        (["a"], {"padding_side": "top"}, ConfigError, "allowed: left, right"),
    ],
)
def test_bad_input_is_named(
    texts: Any, options: dict[str, Any], error: type[Exception], fragment: str
) -> None:
    with pytest.raises(error, match=fragment):
        encode_batch(texts, DECODER, **options)


def test_bos_needs_a_bos_token() -> None:
    with pytest.raises(ConfigError, match="has no BOS token"):
        encode_batch(["a"], SEQ2SEQ, special_tokens="bos")
