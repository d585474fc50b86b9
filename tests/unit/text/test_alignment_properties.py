"""Any Unicode string, any kind of tokenizer: the alignment covers every character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from transformers import ByT5Tokenizer, CanineTokenizer

from tests.unit.text.tokenizers_for_tests import (
    TEXTS,
    check_alignment,
    check_all,
    slow_ctrl,
    slow_wordpiece,
    trained,
)
from workbench.text import TokenizerKind, align_words

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
ROLES = ["encoder", "decoder", "seq2seq"]


@pytest.mark.parametrize("kind", list(TokenizerKind))
@pytest.mark.parametrize("role", ROLES)
@quick
@given(text=TEXTS)
def test_trained_tokenizers_cover_any_text(kind: TokenizerKind, role: str, text: str) -> None:
    check_all(text, trained(kind, role))


@pytest.mark.parametrize("kind", [k for k in TokenizerKind if k is not TokenizerKind.BYTES])
@quick
@given(text=TEXTS)
def test_lowercasing_tokenizers_cover_any_text(kind: TokenizerKind, text: str) -> None:
    check_all(text, trained(kind, lowercase=True))


@pytest.mark.filterwarnings("ignore:This sequence already has")
@pytest.mark.parametrize("tokenizer", [ByT5Tokenizer(), CanineTokenizer()], ids=["byt5", "canine"])
@quick
@given(text=TEXTS)
def test_slow_tokenizers_cover_any_text(tokenizer: Any, text: str) -> None:
    check_all(text, tokenizer)


@pytest.fixture(scope="module", params=[slow_wordpiece, slow_ctrl], ids=["wordpiece", "ctrl"])
def slow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return request.param(tmp_path_factory.mktemp("slow"))


@quick
@given(text=TEXTS)
@example(text="0\x1fꀀ{0")  # the known piece is the last character, not the first
def test_slow_tokenizers_with_unknown_tokens_cover_any_text(slow: Any, text: str) -> None:
    check_all(text, slow)


@pytest.mark.parametrize("kind", list(TokenizerKind))
@quick
@given(text=TEXTS)
def test_words_given_by_the_caller_are_kept(kind: TokenizerKind, text: str) -> None:
    words = [text[i : i + 3] for i in range(0, len(text), 3)]
    for space_after in (None, [False] * len(words)):
        alignment = align_words(words, trained(kind), space_after=space_after)
        check_alignment(alignment)
        assert [alignment.word(w) for w in range(len(words))] == words
