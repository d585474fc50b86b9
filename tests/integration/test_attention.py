"""Traces and head statistics on real weights and real text."""

from __future__ import annotations

import numpy as np
import pytest

import workbench
from tests.helpers import data_dir, needs_data, needs_minilm, needs_smollm2
from workbench.analysis.dependency import dependency_heads
from workbench.analysis.heads import head_statistics, repetition_scores
from workbench.data.conllu import read_conllu
from workbench.trace import trace


@pytest.fixture(scope="module")
def minilm():
    return workbench.load("minilm-l6", dtype="float32")


@pytest.fixture(scope="module")
def smollm2():
    return workbench.load("smollm2-135m", dtype="float32")


@pytest.mark.weights
@needs_smollm2
def test_decoder_attends_to_nothing_ahead_and_has_induction_heads(smollm2):
    """Olsson et al. (2022) find induction heads in every decoder of two layers or more."""
    record = trace(smollm2, ["The cat sat on the mat because the cat"], layers=[0, 29])[0]
    assert np.triu(record.attention, 1).max() == 0
    np.testing.assert_allclose(record.attention.sum(-1), 1, atol=1e-5)
    scores = repetition_scores(smollm2, length=25, sequences=4)
    assert scores["induction"].values.max() > 0.5


@pytest.mark.weights
@needs_smollm2
def test_a_trace_of_chosen_layers_of_a_long_text_holds_only_those(smollm2):
    record = trace(smollm2, [("word " * 1024).strip()], layers=[3, 20], max_length=1024)[0]
    assert record.attention.shape == (2, 9, 1024, 1024)
    assert record.nbytes == 2 * 9 * 1024 * 1024 * 4


@pytest.mark.weights
@pytest.mark.data
@needs_minilm
@needs_data
def test_determiners_are_found_better_than_by_their_place(minilm):
    """Clark et al. (2019, table 1): some head finds a noun from its determiner, above any fixed offset."""
    trees = read_conllu(data_dir() / "ud" / "en_ewt-ud-dev.conllu", limit=300)
    found = dependency_heads(minilm, trees, min_words=50)
    row = next(row for row in found.rows if row.relation == "det")
    assert row.offset == 1  # "the cat": the noun is the next word
    assert row.difference.low > 0


@pytest.mark.weights
@needs_minilm
def test_one_of_minilms_heads_attends_to_the_previous_token(minilm):
    texts = [
        "The animal didn't cross the street because it was too tired.",
        "We don't know what she told him.",
    ]
    found = head_statistics(minilm, texts)
    assert found["previous token"].values.max() > 0.9
    assert found["previous token"].values.max() > 5 * found.uniform["previous token"].max()
