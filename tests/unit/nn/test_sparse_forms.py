"""Block-sparse attention: what it equals when nothing is left out, and which keys it leaves out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.largest_tensor import LargestTensor
from workbench.nn import Attention, AttentionContext, eager_attention, sdpa_attention
from workbench.nn.forms import BigBirdAttention, EfficientAttention, LongformerAttention
from workbench.nn.forms.blocks import listed_once

WIDTH, HEADS = 8, 2


def _make(form: type[EfficientAttention], **settings: Any) -> EfficientAttention:
    torch.manual_seed(0)
    return form(width=WIDTH, heads=HEADS, **settings).double().eval()


def _hidden(length: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, length, WIDTH, dtype=torch.float64, generator=generator)


def _heads(attention: Attention, hidden: Tensor, function: Any = sdpa_attention, **context: Any) -> Tensor:
    return attention(hidden, AttentionContext(function=function, **context))[0].detach()


def _full(attention: EfficientAttention, hidden: Tensor, **context: Any) -> Tensor:
    """Full attention with the same weights."""
    full = Attention(width=WIDTH, heads=HEADS, is_causal=attention.is_causal).double().eval()
    full.load_state_dict({n: w for n, w in attention.state_dict().items() if "_global" not in n})
    return _heads(full, hidden, **context)


def test_bigbird_that_meets_every_block_is_full_attention() -> None:
    attention, hidden = _make(BigBirdAttention, block=4, random_blocks=3, seed=0), _hidden(27)
    torch.testing.assert_close(_heads(attention, hidden), _full(attention, hidden), rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
def test_longformer_with_a_window_as_wide_as_the_text_is_full_attention(is_causal: bool) -> None:
    attention = _make(LongformerAttention, window=27, global_tokens=0, is_causal=is_causal)
    torch.testing.assert_close(
        _heads(attention, _hidden(27)), _full(attention, _hidden(27)), rtol=0, atol=1e-12
    )


def test_longformer_sees_its_window_and_the_global_token() -> None:
    attention, hidden = _make(LongformerAttention, window=2, global_tokens=1), _hidden(9)
    weights = attention(hidden, AttentionContext(function=eager_attention))[1]
    seen = (weights[0, 0] > 0).int().tolist()
    assert seen[0] == [1] * 9
    assert seen[1] == [1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert seen[6] == [1, 0, 0, 0, 1, 1, 1, 1, 1]


def test_causal_longformer_sees_what_came_before() -> None:
    attention = _make(LongformerAttention, window=2, global_tokens=1, is_causal=True)
    weights = attention(_hidden(6), AttentionContext(function=eager_attention))[1]
    expected = [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 0]]
    assert (weights[0, 0] > 0).int().tolist()[:4] == expected


@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize("global_tokens", [0, 2, 4])
@pytest.mark.parametrize("length", [1, 3, 4, 11])
def test_longformer_of_any_sizes_is_its_map(window: int, global_tokens: int, length: int) -> None:
    for is_causal in (False, True):
        attention = _make(
            LongformerAttention, window=window, global_tokens=global_tokens, is_causal=is_causal
        )
        fast, slow = (_heads(attention, _hidden(length), f) for f in (sdpa_attention, eager_attention))
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("block", [1, 3, 8])
@pytest.mark.parametrize("random_blocks", [0, 2])
@pytest.mark.parametrize("length", [1, 3, 4, 17])
def test_bigbird_of_any_sizes_is_its_map(block: int, random_blocks: int, length: int) -> None:
    attention = _make(BigBirdAttention, block=block, random_blocks=random_blocks, seed=0)
    fast, slow = (_heads(attention, _hidden(length), f) for f in (sdpa_attention, eager_attention))
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 9])
def test_bigbird_draws_what_is_left_and_nothing_twice(count: int) -> None:
    attention, last = _make(BigBirdAttention, block=2, random_blocks=4, seed=0), torch.tensor(count - 1)
    drawn = attention.drawn(last.view(1, 1, 1, 1), count)  # type: ignore[operator]
    for head in drawn[0].tolist():
        for here, blocks in enumerate(head):
            chosen = [block for block in blocks if block >= 0]
            left = {block for block in range(1, count - 1) if abs(block - here) > 1}
            assert len(chosen) == len(set(chosen)) == min(4, len(left))
            assert set(chosen) <= left


def test_bigbird_draws_far_blocks_evenly_and_by_its_seed() -> None:
    count = 40
    first, again, other = (_make(BigBirdAttention, block=2, random_blocks=3, seed=seed) for seed in (0, 0, 1))
    last = torch.full((1, 1, 1, 1), count - 1)
    drawn = first.drawn(last, count)  # type: ignore[operator]
    assert drawn.shape == (1, HEADS, count, 3)
    assert torch.equal(drawn, again.drawn(last, count))  # type: ignore[operator]
    assert not torch.equal(drawn, other.drawn(last, count))  # type: ignore[operator]
    assert not torch.equal(drawn[0, 0], drawn[0, 1])
    here = torch.arange(count)[:, None]
    assert bool(((drawn - here).abs() > 1).all())
    assert int(drawn.min()) > 0
    assert int(drawn.max()) < count - 1
    counts = torch.bincount(drawn.flatten(), minlength=count)[1:-1]
    assert int(counts.min()) >= 1
    assert int(counts.max()) <= 16  # 240 draws of 38 blocks: 6.3 each on average


def test_random_blocks_depend_on_the_text_alone() -> None:
    attention = _make(BigBirdAttention, block=2, random_blocks=2, seed=0)
    short = attention.drawn(torch.tensor(9).view(1, 1, 1, 1), 10)  # type: ignore[operator]
    padded = attention.drawn(torch.tensor(9).view(1, 1, 1, 1), 30)  # type: ignore[operator]
    assert torch.equal(padded[:, :, :10], short)


def test_a_block_listed_twice_counts_once() -> None:
    assert listed_once(torch.tensor([[3, 1, 3, -1, 1]])).tolist() == [[3, 1, -1, -1, -1]]


@pytest.mark.parametrize(
    "attention",
    [
        _make(BigBirdAttention, block=4, random_blocks=3, seed=0),
        _make(LongformerAttention, window=4, global_tokens=2),
        _make(LongformerAttention, window=4, global_tokens=2, is_causal=True),
    ],
    ids=["bigbird", "longformer", "causal longformer"],
)
def test_no_tensor_grows_faster_than_the_text(attention: EfficientAttention) -> None:
    largest = []
    for length in (512, 2048):
        hidden = _hidden(length).requires_grad_()
        with LargestTensor() as seen:
            attention(hidden, AttentionContext(function=sdpa_attention))[0].sum().backward()
        largest.append(seen.entries)
    assert largest[1] <= 4 * largest[0]
