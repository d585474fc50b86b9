"""Repetition scores and the errors of ratios."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.unit.trace import tiny
from workbench.analysis._head_sums import RatioSums
from workbench.analysis.heads import _Repetition, repetition_scores
from workbench.errors import DataError, ModelError
from workbench.trace import AttentionCall, Stack


def test_ratio_errors():
    """Two texts with totals 2 and 6 over 2 and 4 tokens: ratio 8/6; residuals -2/3 and 2/3.

    Variance 2 / (2 - 1) * (4/9 + 4/9) / 36 = 4/81, so the error is 2/9.
    """
    sums = RatioSums()
    sums.add(np.array([2.0]), np.array([2.0]))
    sums.add(np.array([6.0]), np.array([4.0]))
    assert sums.values == pytest.approx(8 / 6)
    assert sums.standard_errors == pytest.approx(2 / 9)


def test_repetition_diagonals():
    """BOS and two copies of 3 tokens: position 4 repeats 1, whose successor is 2."""
    observer = _Repetition(Stack.DECODER, 1, 3)
    weights = torch.zeros(1, 2, 7, 7)
    for query in (4, 5, 6):
        weights[0, 0, query, query - 2] = 1.0  # induction: the token after the earlier copy
        weights[0, 1, query, query - 3] = 0.5  # the earlier copy itself
        weights[0, 1, query, query - 1] = 0.5
    observer.observe(AttentionCall(None, Stack.DECODER, 0, weights))
    assert observer.sums[0].values.tolist() == [[1, 0, 0], [0, 0.5, 0.5]]


def test_repetition_scores_of_a_decoder():
    found = repetition_scores(tiny.llama(), length=5, sequences=6, seed=1)
    assert list(found) == ["induction", "duplicate token", "previous token"]
    assert found["induction"].values.shape == (3, 4)
    assert found["induction"].standard_error.shape == (3, 4)
    again = repetition_scores(tiny.llama(), length=5, sequences=6, seed=1)
    np.testing.assert_array_equal(found["induction"].values, again["induction"].values)
    with pytest.raises(ModelError, match="needs a causal model"):
        repetition_scores(tiny.bert())
    with pytest.raises(DataError, match="length is 2 to 19"):
        repetition_scores(tiny.llama(), length=20)
