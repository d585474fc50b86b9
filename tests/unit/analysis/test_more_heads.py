"""Repetition scores, distances between heads, and importance by ablation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.unit.trace import tiny
from workbench.analysis._ratio import RatioSums
from workbench.analysis.head_distance import head_clusters, head_distances, head_map, js_divergences
from workbench.analysis.importance import head_importance
from workbench.analysis.repetition import _Repetition, repetition_scores
from workbench.errors import DataError, ModelError
from workbench.trace import AttentionCall, Stack, trace


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


def test_divergence_of_disjoint_heads_is_ln_2():
    """Equal heads are 0 apart; (1, 0) and (0, 1) ln 2; (1, 0) and (1/2, 1/2): ln 2 - 3/4 ln 3 + ln 2 / 2 ..."""
    one, other, half = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]
    found = js_divergences(np.array([[one], [one], [other], [half]]))
    mixed = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - np.log(2) / 2
    np.testing.assert_allclose(found[0], [0, 0, np.log(2), mixed], atol=1e-12)
    np.testing.assert_allclose(found, found.T)


def test_distances_map_and_clusters():
    model = tiny.bert()
    texts = ["the cat sat", "a dog ran on the mat"]
    distances = head_distances(model, texts)
    # By hand from the traces, for heads 0-0 and 2-3: divergences summed over all 13 queries.
    rows = [np.stack([r.attention[0, 0], r.attention[2, 3]]) for r in trace(model, texts)]
    expected = np.sqrt(
        sum(js_divergences(a)[0, 1] * a.shape[1] for a in rows) / sum(a.shape[1] for a in rows)
    )
    assert distances.labels["head a"][11] == "2-3"
    assert distances.values[0, 11] == pytest.approx(expected, abs=1e-6)
    assert head_map(distances).values.shape == (12, 2)
    assert set(head_clusters(distances, 3).values()) == {0, 1, 2}
    with pytest.raises(DataError, match="allowed: 1 to 12"):
        head_clusters(distances, 13)


def test_importance_is_the_drop_of_the_metric():
    """A head whose output projection is zero does not matter; the others' drops are those of zeroed columns."""
    model = tiny.llama()
    weight = model.model.model.layers[1].self_attn.o_proj.weight
    with torch.no_grad():
        weight[:, 4:8] = 0

    def metric(loaded):
        return [float(r.logits[-1, 7]) for r in trace(loaded, ["the cat", "a dog ran"], {"logits"})]

    found = head_importance(model, metric, layers=[1])
    assert found.axes == ("layer", "head")
    assert found.at(layer=1, head=1) == pytest.approx(0.0, abs=1e-6)
    whole = metric(model)
    with torch.no_grad():
        weight[:, 8:12] = 0
    drop = np.array(whole) - metric(model)
    assert found.at(layer=1, head=2) == pytest.approx(drop.mean(), abs=1e-5)
    assert found.standard_error[0, 2] == pytest.approx(drop.std(ddof=1) / np.sqrt(2), abs=1e-5)


def test_importance_of_a_single_number_has_no_error():
    found = head_importance(tiny.bert(), lambda model: 0.5, layers=[0])
    assert found.standard_error is None
    assert (found.values == 0).all()
    with pytest.raises(DataError, match="must return finite numbers"):
        head_importance(tiny.bert(), lambda model: float("nan"))
