"""Alignments worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import ByT5Tokenizer

from tests.unit.text.tokenizers_for_tests import check_alignment, slow_ctrl, slow_wordpiece, trained
from workbench.errors import DataError
from workbench.text import Alignment, TokenizerKind, align, align_words, split_words


def pieces(alignment: Alignment) -> list[tuple[str, str, int | None]]:
    return [(t, alignment.piece(i), alignment.word_ids[i]) for i, t in enumerate(alignment.tokens)]


def test_words_are_whitespace_separated() -> None:
    assert split_words("  a b\u3000cd\n") == ((2, 3), (4, 5), (6, 8))
    assert split_words("") == split_words(" \n") == ()


def test_punctuation_marks_can_be_words() -> None:
    def split(text: str) -> list[str]:
        return [text[a:b] for a, b in split_words(text, punctuation=True)]

    assert split("don't (stop)!?") == ["don", "'", "t", "(", "stop", ")", "!", "?"]
    assert split("5$ a_b") == ["5", "$", "a", "_", "b"]
    assert split("!\ufe0fx e\u0301.") == ["!\ufe0f", "x", "e\u0301", "."], "marks stay with what they follow"


def test_wordpiece_tokens_map_to_their_words() -> None:
    alignment = align("The cats, again", trained(TokenizerKind.WORDPIECE))
    assert alignment.word_ids[0] is None
    assert alignment.word_ids[-1] is None
    assert [alignment.word(w) for w in range(3)] == ["The", "cats,", "again"]
    first, stop = alignment.token_spans[1]
    assert "".join(alignment.piece(t) for t in range(first, stop)) == "cats,"


def test_pieces_inside_one_character_share_its_span() -> None:
    """The emoji is four bytes of UTF-8, F0 9F 98 8A; ByT5's id is the byte plus 3."""
    alignment = align("a 😊", trained(TokenizerKind.BYTES, "seq2seq"))
    assert alignment.ids == (0x61 + 3, 0x20 + 3, 0xF0 + 3, 0x9F + 3, 0x98 + 3, 0x8A + 3, 1)
    assert alignment.offsets == ((0, 1), (1, 2), (2, 3), (2, 3), (2, 3), (2, 3), (3, 3))
    assert alignment.word_ids == (0, None, 1, 1, 1, 1, None)
    assert alignment.token_spans == ((0, 1), (2, 6))


def test_a_slow_byte_tokenizer_aligns_like_the_fast_one() -> None:
    text = "na\u00efve \u4f60 <extra_id_0> x"
    slow, fast = (
        align(text, ByT5Tokenizer()),
        align(text, trained(TokenizerKind.BYTES, "seq2seq"), parse_special=False),
    )
    assert slow.words == fast.words
    assert slow.token_spans[:2] == fast.token_spans[:2] == ((0, 6), (7, 10))
    check_alignment(slow)


def test_removed_characters_go_to_their_neighbours() -> None:
    """BERT's clean-up removes the zero-width space and the NUL; lower-casing strips the accents."""
    tokenizer = trained(TokenizerKind.WORDPIECE, lowercase=True)
    alignment = align("\u200bcat the\u200b m\x00at e\u0301", tokenizer, add_special_tokens=False)
    assert alignment.offsets[:2] == ((0, 4), (5, 9))
    assert {i for start, end in alignment.offsets for i in range(start, end)} == {*range(4), *range(5, 9)} | {
        *range(10, 14),
        15,
        16,
    }
    assert alignment.dropped == ()


def test_a_word_that_is_removed_whole_is_reported() -> None:
    alignment = align("the \u200b\u200b cat", trained(TokenizerKind.WORDPIECE), add_special_tokens=False)
    assert alignment.dropped == (1,)
    assert alignment.token_spans == ((0, 1), (1, 1), (1, 2))


def test_slow_wordpiece_with_unknown_words(tmp_path: Path) -> None:
    """Vocabulary: letters, "cat", "##ing". The unknown word takes its own characters and no others."""
    alignment = align("Càting 你 cat 😊😊 a", slow_wordpiece(tmp_path))
    assert pieces(alignment) == [
        ("[CLS]", "", None),
        ("cat", "Càt", 0),
        ("##ing", "ing", 0),
        ("[UNK]", "你", 1),
        ("cat", "cat", 2),
        ("[UNK]", "😊😊", 3),
        ("a", "a", 4),
        ("[SEP]", "", None),
    ]


def test_slow_ctrl_marks_unfinished_words(tmp_path: Path) -> None:
    alignment = align("cat cab", slow_ctrl(tmp_path))
    assert pieces(alignment) == [("cat", "cat", 0), ("ca@@", "ca", 1), ("b", "b", 1)]


def test_words_given_by_the_caller() -> None:
    """CoNLL-U: "don't!" is three words without spaces between; a token may straddle them."""
    tokenizer = trained(TokenizerKind.BYTES, "decoder")
    words, space_after = ["do", "n't", "!", "", "ok"], [False, False, True, False, True]
    alignment = align_words(words, tokenizer, space_after=space_after)
    assert alignment.text == "don't! ok"
    assert alignment.token_spans == ((1, 3), (3, 6), (6, 7), (8, 8), (8, 10))
    assert alignment.dropped == (3,)


def test_a_token_that_straddles_words_belongs_to_both() -> None:
    alignment = align_words(["c", "at"], trained(TokenizerKind.BPE), space_after=[False, True])
    assert alignment.tokens == ("[CLS]", "▁cat", "[SEP]")
    assert alignment.word_ids == (None, 0, None)
    assert alignment.token_spans == ((1, 2), (1, 2))


def test_special_tokens_spelled_out_are_parsed_or_not() -> None:
    tokenizer = trained(TokenizerKind.BYTES, "decoder")
    parsed = align("</s>", tokenizer, add_special_tokens=False)
    literal = align("</s>", tokenizer, add_special_tokens=False, parse_special=False)
    assert parsed.ids == (1,)
    assert parsed.offsets == ((0, 4),)
    assert literal.ids == tuple(b + 3 for b in b"</s>")


def test_truncation_and_padding_in_the_tokenizer_file_are_ignored() -> None:
    """Some files, such as sentence-transformers', truncate at 128 tokens and pad; an alignment never does."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer.from_str(trained(TokenizerKind.BYTES, "decoder").backend_tokenizer.to_str())
    inner.enable_truncation(4)
    inner.enable_padding(length=8, pad_token="<pad>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    assert len(align("abcdefghij", tokenizer, add_special_tokens=False)) == 10


@pytest.mark.parametrize(
    ("text", "fragment"),
    [("a\udc80", r"lone surrogate \\udc80 at character 2"), (None, "must be a str, got NoneType")],
)
def test_what_is_not_text_is_refused(text: Any, fragment: str) -> None:
    for tokenizer in (trained(TokenizerKind.BPE), ByT5Tokenizer()):
        with pytest.raises(DataError, match=fragment):
            align(text, tokenizer)
        with pytest.raises(DataError, match="word 0"):
            align_words([text], tokenizer)


def test_space_after_must_match_the_words() -> None:
    with pytest.raises(DataError, match="space_after has 1 entries for 2 words"):
        align_words(["a", "b"], trained(TokenizerKind.BPE), space_after=[True])
