"""Real weights through the built-in code: the same numbers as transformers, within 1e-4 on real sentences."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import workbench
from tests.helpers import data_dir, needs_data, needs_minilm, needs_smollm2

SENTENCES = 50
TOLERANCE = 1e-4


def sentences() -> list[str]:
    """The first paragraphs of WikiText-2's test part, cut to 24 words."""
    lines = (data_dir() / "wikitext2" / "wiki.test.raw").read_text(encoding="utf-8").splitlines()
    texts = [line.split() for line in lines if len(line.split()) > 24 and not line.strip().startswith("=")]
    return [" ".join(words[:24]) for words in texts[:SENTENCES]]


@pytest.mark.weights
@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "field"),
    [
        pytest.param("smollm2-135m", "logits", marks=needs_smollm2),
        pytest.param("minilm-l6", "last_hidden_state", marks=needs_minilm),
    ],
)
def test_same_numbers_as_transformers(name: str, field: str) -> None:
    original = workbench.load(name, dtype="float32", device="cpu")
    builtin = workbench.load(name, dtype="float32", device="cpu", implementation="builtin")
    assert type(builtin.model).__module__.startswith("workbench.models")
    assert builtin.kind == original.kind
    tokenizer: Any = original.tokenizer
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    texts = sentences()
    assert len(texts) == SENTENCES
    for start in range(0, SENTENCES, 10):
        batch = tokenizer(texts[start : start + 10], return_tensors="pt", padding=True)
        with torch.no_grad():
            theirs, ours = original.model(**batch)[field], builtin.model(**batch)[field]
        kept = batch["attention_mask"].bool()
        torch.testing.assert_close(ours[kept], theirs[kept], atol=TOLERANCE, rtol=0)
