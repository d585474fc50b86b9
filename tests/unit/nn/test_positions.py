"""Position encodings against tables worked out by hand, and the property each is made for."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.nn import AlibiPositions, LearnedPositions, PositionEncoding, RelativeBuckets, RotaryPositions
from workbench.nn.positions import alibi_slopes, bucket_of_distance, sinusoids


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_rotary_scores_depend_on_distance_only(interleaved: bool, fraction: float) -> None:
    torch.manual_seed(0)
    rotary = RotaryPositions(head_size=8, interleaved=interleaved, fraction=fraction)
    query, key = torch.randn(1, 1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 1, 8, dtype=torch.float64)

    def score(query_place: int, key_place: int) -> float:
        turned_query, _ = rotary.rotate_query_key(
            query, key, rotary.angles(torch.tensor([[query_place]]), query)
        )
        _, turned_key = rotary.rotate_query_key(query, key, rotary.angles(torch.tensor([[key_place]]), key))
        return float((turned_query * turned_key).sum())

    assert score(7, 4) == pytest.approx(score(103, 100), abs=1e-5)
    assert score(7, 4) != pytest.approx(score(7, 5), abs=1e-3)


def test_rotary_turns_the_first_pair_by_its_position() -> None:
    """Pair 0 turns by p radians: (1, 0) at p = 2 is (cos 2, sin 2); the halves are paired, or the neighbours."""
    states = torch.tensor([1.0, 0.0, 0.0, 0.0]).view(1, 1, 1, 4)
    for interleaved, partner in ((False, 2), (True, 1)):
        rotary = RotaryPositions(head_size=4, interleaved=interleaved)
        turned, _ = rotary.rotate_query_key(states, states, rotary.angles(torch.tensor([[2]]), states))
        expected = torch.zeros(4)
        expected[0], expected[partner] = math.cos(2), math.sin(2)
        torch.testing.assert_close(turned.flatten(), expected)


def test_partial_rotary_leaves_the_rest() -> None:
    rotary, states = RotaryPositions(head_size=8, fraction=0.25), torch.randn(1, 1, 3, 8)
    turned, _ = rotary.rotate_query_key(states, states, rotary.angles(torch.arange(3)[None], states))
    assert torch.equal(turned[..., 2:], states[..., 2:])


def test_sinusoids_by_hand() -> None:
    """Width 4, position 3: sin 3, cos 3, sin(3 / 100), cos(3 / 100), since 10000^(2/4) = 100."""
    expected = torch.tensor([math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)])
    torch.testing.assert_close(sinusoids(torch.tensor([3]), 4)[0], expected)


def test_sinusoid_dot_products_depend_on_distance_only() -> None:
    vectors = sinusoids(torch.arange(64), 32).double()
    products = vectors @ vectors.T
    for distance in (0, 1, 5, 20):
        along = torch.diagonal(products, distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), atol=1e-4, rtol=0)


def test_alibi_slopes_by_hand() -> None:
    """8 heads: 1/2, 1/4, …, 1/256. 3 heads: those of 2, 1/16 and 1/256, then the first of 4, which is 1/4."""
    assert alibi_slopes(8) == pytest.approx([2.0**-i for i in range(1, 9)])
    assert alibi_slopes(3) == pytest.approx([1 / 16, 1 / 256, 1 / 4])


def test_alibi_bias_by_hand() -> None:
    """Two heads have slopes 1/16 and 1/256; the bias is minus slope times distance."""
    bias = AlibiPositions(heads=2).bias_scores(torch.tensor([2]), torch.arange(4))
    expected = torch.tensor([[-2.0, -1.0, 0.0, -1.0]])
    torch.testing.assert_close(bias, torch.stack((expected / 16, expected / 256))[None])


# 8 buckets up to distance 16, one side: 0 to 3 alone, then 4 + floor(log(n / 4) / log(16 / 4) * 4):
# 4 and 5 -> 4, 6 and 7 -> 5, 8 to 11 -> 6, 12 and more -> 7.
ONE_SIDED = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 4, 6: 5, 7: 5, 8: 6, 11: 6, 12: 7, 15: 7, 16: 7, 99: 7}


def test_buckets_by_hand() -> None:
    behind = torch.tensor([-n for n in ONE_SIDED])
    options = {"buckets": 8, "max_distance": 16}
    assert bucket_of_distance(behind, two_sided=False, **options).tolist() == list(ONE_SIDED.values())
    ahead = bucket_of_distance(torch.tensor([1, 50]), two_sided=False, **options)
    assert ahead.tolist() == [0, 0]
    # Two-sided with 16 buckets: the same table behind the query, and 8 further on ahead of it.
    both = {"buckets": 16, "max_distance": 16, "two_sided": True}
    assert bucket_of_distance(behind, **both).tolist() == list(ONE_SIDED.values())
    expected = [n + 8 if distance else 0 for distance, n in ONE_SIDED.items()]
    assert bucket_of_distance(-behind, **both).tolist() == expected


def test_relative_bias_is_the_row_of_its_bucket() -> None:
    relative = RelativeBuckets(heads=3, buckets=8, max_distance=16, two_sided=False)
    bias = relative.bias_scores(torch.tensor([6]), torch.tensor([0, 5, 6]))
    assert torch.equal(bias[0, :, 0].T, relative.table.weight[[5, 1, 0]])


def test_learned_positions_skip_reserved_rows() -> None:
    learned = LearnedPositions(width=4, max_length=5, offset=2)
    added = learned.add_to_embeddings(torch.zeros(1, 2, 4), torch.tensor([[0, 4]]))
    assert torch.equal(added[0], learned.table.weight[[2, 6]])


@pytest.mark.parametrize("encoding", [PositionEncoding(), LearnedPositions(width=8, max_length=9)])
def test_what_is_not_overridden_changes_nothing(encoding: PositionEncoding) -> None:
    query, key, places = torch.randn(1, 2, 3, 4), torch.randn(1, 1, 3, 4), torch.arange(3)
    turned = encoding.rotate_query_key(query, key, encoding.angles(places[None], query))
    assert turned[0] is query
    assert turned[1] is key
    assert encoding.bias_scores(places, places) is None
