"""Minimal pairs: log-probabilities from the definition, written out, are the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from challenge_sets import MinimalPair
from challenge_sets.explanations import explain
from challenge_sets.pairs import PairScore, _common_places, _differing_words, pair_scorer, score_pairs
from challenge_sets.sets.base import within_limits
from challenge_sets.sets.minimal_pairs import PairSet, _row
from tests.unit.tiny import tiny_causal
from workbench.errors import ConfigError, DataError
from workbench.evaluate import TaskOptions
from workbench.statistics import clustered_wilson, wilson

PAIRS = [
    ("the keys to the cabinet are on the table", "the keys to the cabinet is on the table"),
    ("a cat sat", "cats sat on the mat"),
    ("the cat sat", "the cat sat on"),
]


def by_hand(model, text: str, bos: bool) -> list[float]:
    ids = model.tokenizer(text, add_special_tokens=False).input_ids
    ids = [model.tokenizer.bos_token_id, *ids] if bos else ids
    with torch.no_grad():
        scores = torch.log_softmax(model.model(input_ids=torch.tensor([ids])).logits[0].double(), -1)
    return [float(scores[i - 1, ids[i]]) for i in range(1, len(ids))]


@pytest.mark.parametrize(("name", "bos"), [("workbench", True), ("lm-eval", True), ("minicons", False)])
def test_margins_are_differences_of_sums(name, bos):
    model = tiny_causal()
    for pair, got in zip(PAIRS, score_pairs(pair_scorer(model, convention_name=name), PAIRS), strict=True):
        expected = sum(by_hand(model, pair[0], bos)) - sum(by_hand(model, pair[1], bos))
        assert got.margin == pytest.approx(expected, abs=1e-4)
        whole = [sum(by_hand(model, text, bos)) for text in pair]  # every token is scored, as the policy says
        assert (got.first, got.second) == pytest.approx(whole, abs=1e-4)
        assert got.tokens == tuple(len(by_hand(model, text, bos)) for text in pair)


def test_means_are_of_whole_texts():
    model = tiny_causal()
    (got,) = score_pairs(pair_scorer(model, reduction_name="mean"), PAIRS[:1])
    assert got.first == pytest.approx(np.mean(by_hand(model, PAIRS[0][0], True)), abs=1e-5)
    assert got.tokens == (9, 9)


def test_unknown_convention_names_the_known_ones():
    with pytest.raises(ConfigError, match="did you mean 'lm-eval'"):
        pair_scorer(tiny_causal(), convention_name="lm_eval")


def pair(good: str, bad: str, number: int = 0, paradigm: str = "p") -> MinimalPair:
    return MinimalPair(str(number), "set", paradigm, "phenomenon", good, bad)


def test_a_tie_counts_as_the_convention_says():
    tie = PairScore(-1.0, -1.0, (1, 1))
    assert _row(pair("a", "b"), tie, tie_is_right=True)["correct"] is True
    assert _row(pair("a", "b"), tie, tie_is_right=False)["correct"] is False


def test_pairs_with_equal_members_are_left_out_and_all_equal_is_an_error():
    both = PairSet("x", "", lambda _: [pair("a", "b"), pair("c", "c", 1)])
    assert [p.id for p in both.load(None).items] == ["0"]
    assert len(replace(both, options=TaskOptions(convention="lm-eval")).load(None).items) == 2
    with pytest.raises(DataError, match="members of all its pairs are equal"):
        PairSet("x", "", lambda _: [pair("c", "c")]).load(None)


def test_metrics_are_shares_with_wilson_intervals():
    rows = pd.DataFrame(
        {"phenomenon": ["f", "f", "g"], "paradigm": ["a", "b", "c"], "correct": [True, False, True]}
    )
    found = PairSet("x", "", lambda _: []).results(rows)
    assert {name: m["accuracy"].value for name, m in found.items()} == {
        "x": pytest.approx(2 / 3),
        "x/f": 0.5,
        "x/g": 1.0,
        "x/f/a": 1.0,
        "x/f/b": 0.0,
        "x/g/c": 1.0,
    }
    assert found["x"]["accuracy"].low == wilson(2, 3).low


def test_first_of_each_group():
    assert within_limits(
        ["a1", "b1", "a2", "a3", "b2"], lambda item: item[0], TaskOptions(limit_per_paradigm=2)
    ) == ["a1", "b1", "a2", "b2"]


def test_clusters_widen_the_interval_to_that_of_their_number():
    # Cases of a cluster agree: 10 clusters of 5 hold no more than 10 cases. The variance of the share is
    # (10 / 9) * 10 * (5 * 0.5)^2 / 50^2 = 0.0278, so n = 0.25 / 0.0278 = 9.
    hits = [k < 5 for k in range(10) for _ in range(5)]
    got = clustered_wilson(hits, [k for k in range(10) for _ in range(5)])
    z2 = 2.262157**2  # t of 9 degrees of freedom
    half = np.sqrt(z2 * 0.25 / 9 + z2**2 / (4 * 81)) / (1 + z2 / 9)
    assert (got.low, got.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-5)


def test_one_cluster_counts_its_cases_as_independent_and_says_so():
    got, plain = clustered_wilson([True, False, False], "aaa"), wilson(1, 3)
    assert (got.low, got.high) == pytest.approx((plain.low, plain.high))
    assert got.method == "wilson within one cluster"


def test_clusters_that_agree_count_as_one_case_each():
    got, plain = clustered_wilson([True] * 12, "aaabbbcccddd"), wilson(4, 4)
    assert (got.low, got.high) == pytest.approx((plain.low, plain.high))


def test_common_places_leave_out_the_ends_and_what_differs():
    assert _common_places([0, 5, 6, 7, 9], [0, 5, 8, 7, 9]) == ([1, 3], [1, 3])


def test_differing_words():
    assert _differing_words(("a b c d", "a x y d")) == (["a"], (["b", "c"], ["x", "y"]), ["d"])
    assert _differing_words(("a b", "a b c")) == (["a", "b"], ([], ["c"]), [])


def test_the_lens_ends_at_the_margin_and_attention_differs_only_after_the_difference():
    model = tiny_causal()
    good, bad = PAIRS[0]
    found = explain(pair(good, bad), model)
    (score,) = score_pairs(pair_scorer(model), [(good, bad)])
    assert found.margins[-1] == pytest.approx(score.margin, abs=1e-4)
    assert len(found.margins) == 3  # embeddings and two layers
    assert found.attention_difference.shape == (2, 4)
    last = [m > 0 for m in found.margins]
    assert all(value == last[-1] for value in last[found.parting_layer :])
    with pytest.raises(DataError, match="nothing to explain"):
        explain(pair("a", "a"), model)
