"""Reformer: how often near vectors share a bucket, which tokens then meet, and what each row amounts to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.errors import ConfigError
from workbench.models.configuration import EncoderConfig
from workbench.models.parts import AttentionConfig, FormConfig
from workbench.nn import AttentionContext, eager_attention, sdpa_attention
from workbench.nn.forms import Layout, ReformerAttention

HEADS, SIZE = 2, 16


def _make(*, block: int = 4, rounds: int = 1, buckets: int = 4, **attention: Any) -> ReformerAttention:
    torch.manual_seed(0)
    made = ReformerAttention(
        block=block, rounds=rounds, buckets=buckets, seed=3, width=HEADS * SIZE, heads=HEADS, **attention
    )
    return made.double().eval()


def _hidden(length: int, rows: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, length, HEADS * SIZE, dtype=torch.float64, generator=generator)


def _pairs(count: int, angle: float) -> tuple[Tensor, Tensor]:
    """Unit vectors (1, H, count, d) in uniformly random directions, and others at an angle from them."""
    first, other = torch.randn(
        2, 1, HEADS, count, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    first = first / first.norm(dim=-1, keepdim=True)
    other = other - (other * first).sum(-1, keepdim=True) * first
    return first, math.cos(angle) * first + math.sin(angle) * other / other.norm(dim=-1, keepdim=True)


def collision_probability(angle: float, buckets: int, step: float = 0.02, end: float = 7.0) -> float:
    """That two unit vectors at an angle share their largest of ``buckets`` / 2 projections, and its sign.

    The projections on one random direction are normal with correlation cos(angle). With m = buckets / 2 directions
    p = 2 m ∫∫ f(x, y) G(x, y)^(m - 1) dx dy over x, y > 0, f their density, G(x, y) that of |X| < x and |Y| < y:
    any of m directions may win, with either sign, and the others stay below (Andoni et al. 2015, section 3, whose hash
    this is, give its logarithm to first order in the dimension). For m = 1 it is 1 - angle / π (Charikar 2002).
    """
    middle = np.arange(step / 2, end, step)
    x, y = middle[:, None], middle[None]
    cosine, spread = math.cos(angle), math.sin(angle) ** 2

    def density(sign: int) -> np.ndarray:
        exponent = -(x**2 - 2 * sign * cosine * x * y + y**2) / (2 * spread)
        return np.exp(exponent) / (2 * math.pi * math.sqrt(spread))

    same, opposite = density(1), density(-1)
    cells = 2 * (same + opposite) * step**2
    below = cells.cumsum(0).cumsum(1)
    below = below - (cells.cumsum(0) + cells.cumsum(1)) / 2 + cells / 4  # up to the middle of each cell
    directions = buckets // 2
    return float(2 * directions * (same * below ** (directions - 1)).sum() * step**2)


@pytest.mark.parametrize("angle", [0.3, math.pi / 4, math.pi / 2, 2.0])
def test_the_reference_is_the_known_probability_for_two_buckets(angle: float) -> None:
    assert collision_probability(angle, 2) == pytest.approx(1 - angle / math.pi, abs=1e-3)


@pytest.mark.parametrize("buckets", [2, 8, 32])
def test_the_reference_gives_one_in_all_buckets_at_a_right_angle(buckets: int) -> None:
    assert collision_probability(math.pi / 2, buckets) == pytest.approx(1 / buckets, abs=1e-3)


@pytest.mark.parametrize("buckets", [2, 8, 32])
@pytest.mark.parametrize("angle", [0.2, 0.5, 1.0, math.pi / 2])
def test_vectors_at_an_angle_share_a_bucket_as_often_as_the_hash_predicts(buckets: int, angle: float) -> None:
    rounds, count = 500, 20
    form, (first, second) = _make(rounds=rounds, buckets=buckets), _pairs(count, angle)
    share = (form.hashed(first) == form.hashed(second)).double().mean((0, 3))  # (H, R): independent draws
    found, error = float(share.mean()), float(share.std()) / math.sqrt(share.numel())
    assert abs(found - collision_probability(angle, buckets)) < 4 * error + 1e-3


@pytest.mark.parametrize("rounds", [2, 4, 8])
def test_several_rounds_miss_with_the_power_of_the_probability(rounds: int) -> None:
    """(1 - p) ^ rounds; Kitaev et al. 2020, section 2, "multi-round LSH attention"."""
    draws, buckets, angle = 250, 16, 0.6
    form, (first, second) = _make(rounds=draws * rounds, buckets=buckets), _pairs(20, angle)
    shares = (form.hashed(first) == form.hashed(second)).unflatten(2, (draws, rounds))
    missed = (~shares.any(3)).double().mean((0, 3))  # (H, draws)
    expected = (1 - collision_probability(angle, buckets)) ** rounds
    error = float(missed.std()) / math.sqrt(missed.numel())
    assert abs(float(missed.mean()) - expected) < 4 * error + 1e-3


@pytest.mark.parametrize("rounds", [1, 4])
def test_near_tokens_meet_at_least_as_often_as_they_share_a_bucket(rounds: int) -> None:
    """One of the two attends to the other, where a bucket fits into a chunk; by chance more do."""
    count, buckets, angle = 64, 16, 0.4
    first, second = _pairs(count, angle)
    vectors, length = torch.cat((first, second), 2), 2 * count
    layout = Layout(torch.tensor([length]), torch.arange(length)[None])
    form, met = _make(block=32, rounds=rounds, buckets=buckets), 0.0
    for draw in range(40):
        form.rotations.normal_(generator=torch.Generator().manual_seed(draw))
        visible = form.effective_map(vectors, vectors, vectors, vectors, layout)[1]
        there, back = visible[..., :count, count:], visible[..., count:, :count]
        met += float((there | back.transpose(-1, -2)).diagonal(dim1=-2, dim2=-1).double().mean()) / 40
    assert met > 1 - (1 - collision_probability(angle, buckets)) ** rounds


def _by_hand(form: ReformerAttention, query: Tensor, key: Tensor) -> Tensor:
    """The map (T, T) of one head of one text, token by token; keys met twice count twice."""
    length = len(query)
    buckets = form.hashed(query.expand(1, HEADS, -1, -1))[0, 0].tolist()
    orders = [sorted(range(length), key=lambda t, r=r: (r[t], t)) for r in buckets]
    meetings = _nearest_of_the_bucket(form, buckets) if form.is_strict else _in_chunks(form, orders)
    exponentials = torch.zeros(length, length, dtype=torch.float64)
    for token, other in meetings:
        if other != token and not (form.is_causal and other > token):
            exponentials[token, other] += math.exp(float(query[token] @ key[other]) * form.scaling)
    alone = exponentials.sum(-1) == 0
    exponentials[alone] = torch.eye(length, dtype=torch.float64)[alone]
    return exponentials / exponentials.sum(-1, keepdim=True)


def _in_chunks(form: ReformerAttention, orders: list[list[int]]) -> Iterator[tuple[int, int]]:
    """Tokens of a chunk and those of it and of the chunk before."""
    chunks = [order[i : i + form.block] for order in orders for i in range(0, len(order), form.block)]
    for before, chunk in pairwise([chunks[-1], *chunks]):
        yield from product(chunk, (*before, *chunk))


def _nearest_of_the_bucket(form: ReformerAttention, buckets: list[list[int]]) -> Iterator[tuple[int, int]]:
    """Tokens and the nearest earlier ones in the same bucket."""
    for row in buckets:
        for token, bucket in enumerate(row):
            earlier = [other for other in range(token) if row[other] == bucket]
            yield from product([token], earlier[-form.block :])


@pytest.mark.parametrize("form", [{}, {"is_causal": True}, {"is_causal": True, "across_buckets": True}])
@pytest.mark.parametrize("length", [1, 4, 11, 19])
def test_its_map_is_the_one_made_by_hand(form: dict[str, bool], length: int) -> None:
    """In a batch with a longer text, at lengths that are no multiple of the block."""
    made, hidden = _make(rounds=3, buckets=2, **form), _hidden(24)
    tokens = torch.ones(2, 24, dtype=torch.bool)
    tokens[1, length:] = False
    context = AttentionContext(function=eager_attention, tokens=tokens)
    with torch.no_grad():
        query, key, _ = made.project(hidden, context)
        found = made(hidden, context)[1][1, 0, :length]
    expected = _by_hand(made, query[1, 0, :length], key[1, 0, :length])
    torch.testing.assert_close(found[:, :length], expected, rtol=0, atol=1e-12)
    assert not found[:, length:].any()


@pytest.mark.parametrize("across_buckets", [False, True])
def test_later_tokens_change_nothing_unless_chunks_go_across_buckets(across_buckets: bool) -> None:
    """With the paper's chunks they change which earlier tokens are seen, though none of them is."""
    form = _make(rounds=2, is_causal=True, across_buckets=across_buckets)
    changed = _hidden(32)
    changed[:, 16:] = changed[:, 16:].flip(-1)
    with torch.no_grad():
        first, second = (
            form(hidden, AttentionContext(function=sdpa_attention))[0][:, :16]
            for hidden in (_hidden(32), changed)
        )
    difference = float((first - second).abs().max())
    assert difference > 1e-3 if across_buckets else difference < 1e-12


def test_a_token_attends_to_itself_only_where_it_is_alone() -> None:
    weights = _make(rounds=2, is_causal=True).float()(
        _hidden(20).float(), AttentionContext(function=eager_attention)
    )[1]
    itself = weights.diagonal(dim1=-2, dim2=-1)
    assert ((itself == 0) | (itself > 0.999)).all()
    assert (itself[..., 0] > 0.999).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, 20), rtol=0, atol=1e-5)


def test_keys_shared_by_heads_are_refused() -> None:
    with pytest.raises(ConfigError) as raised:
        EncoderConfig(attention=AttentionConfig(heads=4, key_value_heads=2), form=FormConfig(kind="reformer"))
    assert str(raised.value).startswith(
        "attention.key_value_heads = 2 is not allowed; allowed: none or attention.heads = 4"
    )
