"""The tokenizers of real models: any text is covered, and real words get the tokens that spell them."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.helpers import data_dir, needs_data, needs_minilm, needs_smollm2
from tests.unit.text.tokenizers_for_tests import TEXTS, check_all
from workbench.models import load_tokenizer
from workbench.text import align

pytestmark = pytest.mark.weights
quick = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def minilm() -> Any:
    return load_tokenizer("minilm-l6")


@pytest.fixture(scope="module")
def smollm2() -> Any:
    return load_tokenizer("smollm2-135m")


@needs_minilm
@quick
@given(text=TEXTS)
def test_minilm_covers_any_text(minilm: Any, text: str) -> None:
    check_all(text, minilm)


@needs_smollm2
@quick
@given(text=TEXTS)
def test_smollm2_covers_any_text(smollm2: Any, text: str) -> None:
    check_all(text, smollm2)


@needs_data
@needs_smollm2
@pytest.mark.data
def test_the_tokens_of_a_word_decode_to_the_word(smollm2: Any) -> None:
    """The tokenizer's own decoder is the reference; it knows nothing of offsets."""
    with (data_dir() / "lambada" / "lambada_test.jsonl").open(encoding="utf-8") as lines:
        passages = [json.loads(line)["text"] for line in islice(lines, 200)]
    words = 0
    for alignment in (align(passage, smollm2) for passage in passages):
        assert alignment.dropped == ()
        for w, (first, stop) in enumerate(alignment.token_spans):
            assert smollm2.decode(alignment.ids[first:stop]).strip() == alignment.word(w)
            words += 1
    assert words == sum(len(passage.split()) for passage in passages)
