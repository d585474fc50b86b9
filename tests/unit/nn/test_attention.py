"""Attention against a float64 loop written from the formula, and what the cache and the masks may not change."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import Cache

from workbench.models.contexts import SourceCache
from workbench.nn import (
    Attention,
    AttentionContext,
    RotaryPositions,
    eager_attention,
    sdpa_attention,
)
from workbench.nn.masks import causal_mask


def padding_mask(tokens: Tensor) -> Tensor:
    """Hides padded keys: (B, K) to (B, 1, 1, K)."""
    return (tokens != 0)[:, None, None, :]


def loop(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, scaling: float, softcap: float | None
) -> Tensor:
    """Vaswani et al. 2017, equation 1, one number at a time; heads of the query share key heads in turn."""
    batch, heads, queries, size = query.shape
    groups = heads // key.shape[1]
    output = torch.zeros(batch, queries, heads, size, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for q in range(queries):
                scores = []
                for k in range(key.shape[2]):
                    if not allowed[b, 0, q, k]:
                        continue
                    products = zip(query[b, h, q].tolist(), key[b, h // groups, k].tolist(), strict=True)
                    score = scaling * sum(x * y for x, y in products)
                    scores.append((softcap * math.tanh(score / softcap) if softcap else score, k))
                total = sum(math.exp(score) for score, _ in scores)
                for score, k in scores:
                    output[b, q, h] += math.exp(score) / total * value[b, h // groups, k].double()
    return output


@pytest.mark.parametrize("key_value_heads", [4, 2, 1], ids=["multi-head", "grouped", "multi-query"])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_both_paths_equal_the_loop(key_value_heads: int, softcap: float | None) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 5, 6, generator=generator)
    key = torch.randn(2, key_value_heads, 5, 6, generator=generator)
    value = torch.randn(2, key_value_heads, 5, 6, generator=generator)
    tokens = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    allowed = causal_mask(5, 5) & padding_mask(tokens)
    module = Attention(width=24, heads=4, key_value_heads=key_value_heads, head_size=6)
    expected = loop(query, key, value, allowed, 0.3, softcap)

    for mask in (allowed, torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)):
        output, weights = eager_attention(module, query, key, value, mask, scaling=0.3, softcap=softcap)
        torch.testing.assert_close(output.double(), expected, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 5))
        if softcap is None:
            fused, nothing = sdpa_attention(module, query, key, value, mask, scaling=0.3)
            torch.testing.assert_close(fused.double(), expected, atol=1e-6, rtol=1e-6)
            assert nothing is None


@pytest.mark.parametrize("function", [eager_attention, sdpa_attention])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_padding_only_stay_finite(function: object, dtype: torch.dtype) -> None:
    module = Attention(width=8, heads=2).to(dtype)
    hidden = torch.randn(2, 3, 8, dtype=dtype)
    mask = padding_mask(torch.tensor([[1, 1, 0], [0, 0, 0]])).expand(2, 1, 3, 3)
    output, _ = module(hidden, AttentionContext(mask=mask, function=function))  # type: ignore[arg-type]
    assert output.isfinite().all()


def test_cross_attention_reads_the_source() -> None:
    """With one source token, every weight is 1, so each output is that token's value, projected."""
    module = Attention(width=8, heads=2, is_cross_attention=True)
    source = torch.randn(1, 1, 8)
    output, weights = module(torch.randn(1, 4, 8), AttentionContext(source=source))
    assert weights is not None
    torch.testing.assert_close(weights, torch.ones(1, 2, 4, 1))
    torch.testing.assert_close(output, module.output(module.value(source)).expand(1, 4, 8))


def test_steps_with_a_cache_equal_one_pass() -> None:
    torch.manual_seed(0)
    module = Attention(width=16, heads=4, key_value_heads=2, is_causal=True).eval()
    rotary, hidden = RotaryPositions(head_size=4), torch.randn(2, 6, 16)

    def context(first: int, last: int, cache: Cache | None = None) -> AttentionContext:
        places = torch.arange(first, last)[None]
        mask = causal_mask(last - first, last)
        return AttentionContext(
            mask=mask, positions=rotary, angles=rotary.angles(places, hidden), cache=cache
        )

    whole, _ = module(hidden, context(0, 6))
    cache = DynamicCache()
    steps = [module(hidden[:, i : i + 1], context(i, i + 1, cache))[0] for i in range(6)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)
    assert cache.get_seq_length() == 6


def test_the_source_is_projected_once() -> None:
    module = Attention(width=8, heads=2, is_cross_attention=True)
    cache = SourceCache(EncoderDecoderCache(DynamicCache(), DynamicCache()))
    first, _ = module(torch.ones(1, 1, 8), AttentionContext(cache=cache, source=torch.randn(1, 3, 8)))
    again, _ = module(torch.ones(1, 1, 8), AttentionContext(cache=cache, source=torch.zeros(1, 3, 8)))
    torch.testing.assert_close(first, again)
