"""Pooling against a loop, the stack against its layers one by one, and what padding may not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench
from tests.unit.models.tiny import encoder
from workbench.analysis.lens import logit_lens
from workbench.analysis.neurons import top_activations
from workbench.errors import TraceError
from workbench.models import wrap
from workbench.models.funnel import Pooled, pool
from workbench.models.parts import DepthConfig
from workbench.models.size import flops_per_token, language_model_class
from workbench.nn import AttentionContext
from workbench.trace.capture import capture

DEPTH = DepthConfig(layers=7, pool_every=2, upsampled_layers=1)


def built(**changes: Any) -> Any:
    config = encoder(depth=DEPTH, initializer_range=0.3, **changes)
    torch.manual_seed(0)
    return language_model_class(config)(config).double().eval()


def pooled_by_hand(states: Tensor) -> Tensor:
    """The first, then means of two, the last of which may be one."""
    pairs = [states[i : i + 2].mean(0) for i in range(1, len(states), 2)]
    return torch.stack([states[0], *pairs])


@pytest.mark.parametrize("length", range(1, 8))
def test_pooling_is_of_neighbouring_tokens(length: int) -> None:
    hidden = torch.randn(2, length + 3, 4)
    tokens = torch.zeros(2, length + 3, dtype=torch.bool)
    tokens[0, :length], tokens[1, 3:] = True, True  # padding on the right, and on the left
    found = pool(Pooled(hidden, tokens, torch.arange(length + 3).expand(2, -1)))
    for row in range(2):
        expected = pooled_by_hand(hidden[row][tokens[row]])
        torch.testing.assert_close(found.hidden[row][found.tokens[row]], expected)
        places = found.places[row][tokens[row]].tolist()
        assert places == [(n + 1) // 2 for n in range(length)]


def test_the_stack_is_its_layers_one_by_one() -> None:
    """Dai et al. 2020, section 2.2 and equation 5, for one text of 8 tokens: 8, 5 and 3 places."""
    stack = built().model.stack
    hidden = torch.randn(1, 8, 16, dtype=torch.float64)
    found = stack(hidden, {"full_attention": AttentionContext()}, positions=torch.arange(8)[None])

    def layer(module: Any, states: Tensor, keys: Tensor | None = None) -> Tensor:
        source = None if keys is None else module.attention_residual.enter(keys)
        return module(states, AttentionContext(source=source))[0]  # type: ignore[no-any-return]

    layers = stack.layers
    first = layer(layers[1], layer(layers[0], hidden))
    half = pooled_by_hand(first[0])[None]
    second = layer(layers[3], layer(layers[2], half, first))
    quarter = pooled_by_hand(second[0])[None]
    third = layer(layers[5], layer(layers[4], quarter, second))
    assert (half.shape[1], quarter.shape[1]) == (5, 3)
    of_token = [((n + 1) // 2 + 1) // 2 for n in range(8)]
    expected = layer(layers[6], third[:, of_token] + first)
    torch.testing.assert_close(found.last_hidden_state, stack.final_norm(expected))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("length", [1, 4, 5])
def test_padding_and_batch_change_nothing(implementation: str, side: str, length: int) -> None:
    model = built()
    model.set_attn_implementation(implementation)
    long, short = torch.arange(3, 12), torch.arange(20, 20 + length)
    alone = model(input_ids=short[None]).logits[0]
    padding = torch.zeros(9 - length, dtype=torch.long)
    row = torch.cat([padding, short] if side == "left" else [short, padding])
    mask = torch.stack([torch.ones_like(long), (row > 0).long()])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    together = model(input_ids=torch.stack([long, row]), attention_mask=mask, position_ids=positions)
    torch.testing.assert_close(together.logits[1][row > 0], alone, rtol=0, atol=1e-11)


def test_hidden_states_are_kept_for_each_token() -> None:
    model = built()
    model.set_attn_implementation("eager")
    output = model(torch.arange(3, 11)[None], output_hidden_states=True, output_attentions=True)
    assert {tuple(state.shape) for state in output.hidden_states} == {(1, 8, 16)}
    shapes = [tuple(weights.shape[2:]) for weights in output.attentions]
    assert shapes == [(8, 8), (8, 8), (5, 8), (5, 5), (3, 5), (3, 3), (8, 8)]
    pair = output.hidden_states[3][0, 1:3]  # after the third layer two tokens share a place
    assert torch.equal(pair[0], pair[1])


def test_maps_of_pooled_layers_are_refused_and_states_are_not() -> None:
    tokenizer = workbench.load("novels-encoder").tokenizer
    config = encoder(depth=DEPTH, vocab_size=len(tokenizer))
    model = wrap(language_model_class(config)(config).eval(), tokenizer, name="funnel")
    text = "the boys at home"
    with pytest.raises(TraceError, match="is not over all"):
        workbench.trace(model, [text])
    first = workbench.trace(model, [text], layers=(0, 1))
    tokens = len(first[0].tokens)
    assert first[0].encoder_attention is not None
    assert first[0].encoder_attention.shape == (2, 4, tokens, tokens)
    hidden = workbench.trace(model, [text], record={"hidden"})[0].hidden
    assert hidden is not None
    assert hidden.shape == (8, tokens, 16)
    with pytest.raises(TraceError) as refusal:
        logit_lens(model, text)
    assert "\n" not in str(refusal.value)
    assert capture(model, text, "residual", [0, 6]).values.shape[:2] == (2, tokens)
    for refused in (
        lambda: capture(model, text, "residual", [3]),
        lambda: capture(model, text, "mlp"),
        lambda: top_activations(model, [text], 2, [0]),
        lambda: workbench.trace(model, [text], record={"mlp"}),
        lambda: workbench.trace(model, [text], record={"queries_keys"}),
    ):
        with pytest.raises(TraceError, match="at fewer places than there are tokens"):
            refused()


def test_cost_counts_the_places_of_each_layer() -> None:
    """One layer of width 16 and size 24: 4 · 16² + 2 · 16 · 24 weights; keys and values of wider layers count wider."""
    plain = flops_per_token(encoder(depth=replace(DEPTH, pool_every=None, upsampled_layers=0)), 8)
    key_value, others, attend = 2 * 2 * 16 * 16, 2 * (2 * 16 * 16 + 2 * 16 * 24), 4 * 16
    shapes = [(8, 8), (8, 8), (5, 8), (5, 5), (3, 5), (3, 3), (8, 8)]
    saved = sum(
        key_value * (8 - keys) / 8 + others * (8 - queries) / 8 + attend * (8 - queries * keys / 8)
        for queries, keys in shapes
    )
    assert flops_per_token(encoder(depth=DEPTH), 8) == pytest.approx(plain - saved, abs=1)
