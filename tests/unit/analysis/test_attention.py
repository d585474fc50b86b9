"""Analyses of one text's attention, each against a value worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.trace import tiny
from workbench.analysis.attention import (
    attention_distance,
    attention_entropy,
    attention_rollout,
    effective_attention,
    merge_words,
    sink_mass,
    value_weighted_norms,
    without_sink,
    word_groups,
)
from workbench.errors import TraceError
from workbench.text import Alignment
from workbench.trace import trace


def heads(*rows):
    """One layer with one head."""
    return np.array(rows, dtype=np.float32)[None, None]


def test_words_sum_over_keys_and_average_over_queries():
    """'ab cd' as pieces a, b, cd: the word 'ab' receives .2 + .3, and its row is the mean of two rows."""
    alignment = Alignment(
        text="ab cd",
        tokens=("a", "##b", "cd"),
        ids=(1, 2, 3),
        offsets=((0, 1), (1, 2), (3, 5)),
        words=((0, 2), (3, 5)),
        word_ids=(0, 0, 1),
    )
    merged = merge_words(heads([0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8]), word_groups(alignment))
    np.testing.assert_allclose(merged[0, 0], [[0.65, 0.35], [0.2, 0.8]], atol=1e-6)
    assert word_groups(alignment).labels == ("ab", "cd")


def test_special_tokens_are_words_of_their_own_or_none():
    record = trace(tiny.bert(), ["the cat"])[0]
    assert word_groups(record.alignment).labels == ("[CLS]", "the", "cat", "[SEP]")
    assert word_groups(record.alignment, special=False).labels == ("the", "cat")
    with pytest.raises(TraceError, match="the words are of 4 tokens, the attention has 2 queries"):
        merge_words(heads([1, 0], [0, 1]), word_groups(record.alignment))


def test_entropy_and_distance():
    """Rows (1/2, 1/2) and (1, 0): entropies ln 2 and 0; distances 1/2 and 1."""
    attention = heads([0.5, 0.5], [1, 0])
    assert attention_entropy(attention).values[0, 0] == pytest.approx(np.log(2) / 2)
    assert attention_distance(attention).values[0, 0] == pytest.approx(0.75)
    # Sample deviation of (ln 2, 0) over the root of two.
    assert attention_entropy(attention).standard_error[0, 0] == pytest.approx(np.log(2) / 2)


def test_rows_that_do_not_sum_to_one_are_refused():
    with pytest.raises(TraceError, match=r"must sum to 1, got 0\.5000 to 1\.0000"):
        attention_entropy(heads([0.5, 0.0], [1, 0]))


def test_sinks():
    attention = heads([0.5, 0.2, 0.3], [0.6, 0.4, 0.0], [1.0, 0.0, 0.0])
    assert sink_mass(attention).values[0, 0] == pytest.approx((0.6 + 1.0) / 2)
    np.testing.assert_allclose(
        without_sink(attention)[0, 0], [[0, 0.4, 0.6], [0, 1, 0], [0, 0, 0]], atol=1e-6
    )


def test_rollout():
    """Two layers that each copy token 0: half of the residual stays, so (1/2, 1/2), then (3/4, 1/4)."""
    copy = np.array([[[1, 0], [1, 0]]], dtype=np.float32)
    rolled = attention_rollout(np.stack([copy, copy])).values
    np.testing.assert_allclose(rolled[0], [[1, 0], [0.5, 0.5]])
    np.testing.assert_allclose(rolled[1], [[1, 0], [0.75, 0.25]])


def test_effective_attention():
    """Three keys and one value dimension: only the component along the values (1, 2, 2) / 3 has an effect.

    For the row (1, 0, 0) it is (1, 2, 2) / 9.
    """
    values = np.array([[[[1.0], [2.0], [2.0]]]])
    effective = effective_attention(np.array([[[[1.0, 0.0, 0.0]]]]), values).values
    np.testing.assert_allclose(effective[0, 0, 0], np.array([1, 2, 2]) / 9, atol=1e-12)


def test_effective_attention_gives_the_same_output():
    record = trace(tiny.llama(), ["the old house and the small red cat"], {"attention", "queries_keys"})[0]
    effective = effective_attention(record.attention, record.values, record.tokens).values
    spread = record.values.repeat(2, axis=1)
    np.testing.assert_allclose(effective @ spread, record.attention @ spread, atol=1e-5)
    assert np.abs(effective - record.attention).max() > 1e-3  # 8 tokens, 4 value dimensions


def test_value_weighted_norms():
    """Computed again from the weights: rows of attention times |v W_O| with the head's rows of W_O."""
    model = tiny.llama()
    found = trace(model, ["the cat sat"], {"attention", "queries_keys"})
    norms = value_weighted_norms(model, found, found[0])
    matrix = model.model.model.layers[2].self_attn.o_proj.weight.detach().numpy()  # (D, H * d)
    expected = np.linalg.norm(matrix[:, 4:8] @ found[0].values[2, 0].T, axis=0)  # query head 1, key head 0
    np.testing.assert_allclose(norms.values[2, 1], found[0].attention[2, 1] * expected, atol=1e-5)
