"""Reformer's attention beside transformers', from the same random weights and the same random rotations.

In double precision, since transformers' weights of a token that sees itself alone, exp(-1e5 - log(n) + 1e5), are off by
up to 0.4 per cent in single precision.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import ReformerConfig
from transformers.models.reformer.modeling_reformer import LSHSelfAttention

from workbench.nn import AttentionContext, eager_attention, sdpa_attention
from workbench.nn.forms import ReformerAttention

WIDTH, HEADS, BLOCK, SEED = 24, 3, 4, 5
TOLERANCE = 1e-4  # of the largest output


def _pair(
    *, is_causal: bool, rounds: int, buckets: int, dtype: torch.dtype = torch.float64
) -> tuple[Any, ReformerAttention]:
    torch.manual_seed(0)
    config = ReformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_head_size=WIDTH // HEADS,
        lsh_attn_chunk_length=BLOCK,
        num_hashes=rounds,
        num_buckets=buckets,
        hash_seed=SEED,
        is_decoder=is_causal,
        lsh_attention_probs_dropout_prob=0.0,
    )
    theirs = LSHSelfAttention(config, layer_idx=0)
    ours = ReformerAttention(
        block=BLOCK,
        rounds=rounds,
        buckets=buckets,
        seed=0,
        width=WIDTH,
        heads=HEADS,
        bias=False,
        is_causal=is_causal,
        across_buckets=True,
    )
    for layer in (theirs.query_key, theirs.value):
        torch.nn.init.normal_(layer.weight, std=0.5)
    ours.query.load_state_dict(theirs.query_key.state_dict())
    ours.value.load_state_dict(theirs.value.state_dict())
    ours.output = torch.nn.Identity()
    ours.rotations = _drawn_by_transformers(ours.rotations.shape, dtype)
    return theirs.to(dtype).eval(), ours.to(dtype).eval()


def _drawn_by_transformers(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(SEED)
    return torch.randn(shape, dtype=dtype)


def _hidden(length: int) -> Tensor:
    return torch.randn(2, length, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("length", [BLOCK, 2 * BLOCK, 8 * BLOCK])
@pytest.mark.parametrize("function", [sdpa_attention, eager_attention])
def test_the_same_output_as_transformers(is_causal: bool, rounds: int, length: int, function: Any) -> None:
    theirs, ours = _pair(is_causal=is_causal, rounds=rounds, buckets=8)
    hidden = _hidden(length)
    with torch.no_grad():
        expected = theirs(hidden).hidden_states
        found = ours(hidden, AttentionContext(function=function))[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE * float(expected.abs().max()))


def test_the_same_output_as_transformers_in_single_precision() -> None:
    theirs, ours = _pair(is_causal=False, rounds=3, buckets=8, dtype=torch.float32)
    hidden = _hidden(8 * BLOCK).float()
    with torch.no_grad():
        expected = theirs(hidden).hidden_states
        found = ours(hidden, AttentionContext(function=sdpa_attention))[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE * float(expected.abs().max()))


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_same_as_transformers_for_a_text_padded_within_its_last_chunk(is_causal: bool) -> None:
    """Where padding fills no chunk of its own, the chunk before the first one is the same one there."""
    theirs, ours = _pair(is_causal=is_causal, rounds=3, buckets=8)
    hidden, tokens = _hidden(8 * BLOCK), torch.ones(2, 8 * BLOCK, dtype=torch.bool)
    tokens[1, -(BLOCK - 1) :] = False
    with torch.no_grad():
        expected = theirs(hidden, attention_mask=tokens).hidden_states[tokens]
        found = ours(hidden, AttentionContext(function=sdpa_attention, tokens=tokens))[0][tokens]
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE * float(expected.abs().max()))


def test_the_same_gradients_as_transformers() -> None:
    theirs, ours = _pair(is_causal=True, rounds=3, buckets=8)
    hidden = _hidden(8 * BLOCK)
    theirs(hidden).hidden_states.square().sum().backward()
    ours(hidden, AttentionContext(function=sdpa_attention))[0].square().sum().backward()
    for mine, their in ((ours.query, theirs.query_key), (ours.value, theirs.value)):
        expected = their.weight.grad
        torch.testing.assert_close(
            mine.weight.grad, expected, rtol=0, atol=TOLERANCE * float(expected.abs().max())
        )
