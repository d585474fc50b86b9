"""Steps and halting against a loop over positions; what padding and later tokens may not change."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.unit.models.tiny import decoder, encoder, encoder_decoder
from workbench.models.configuration import TransformerConfig
from workbench.models.parts import DepthConfig, PositionConfig
from workbench.models.size import flops_per_token, language_model_class, num_parameters
from workbench.nn import LearnedPositions, SinusoidalPositions
from workbench.nn.positions.absolute import sinusoids
from workbench.nn.universal import Halting, add_step, ponder_cost

DEPTH = DepthConfig(layers=4, groups=1, step_encoding=True, halting=0.9, ponder=0.5)


def built(make: type) -> Any:
    """A model in evaluation whose positions stop at different steps."""
    config = make(positions=PositionConfig(kind="sinusoidal"), depth=DEPTH, initializer_range=0.3)
    torch.manual_seed(1)
    model = language_model_class(config)(config).double().eval()
    for module in model.modules():
        if isinstance(module, Halting):
            torch.nn.init.normal_(module.probability.weight, std=2.0)
            torch.nn.init.zeros_(module.probability.bias)
    output = model.model(torch.arange(3, 12)[None])
    assert 1 <= int(output.steps.min()) < int(output.steps.max()) <= 4
    return model


def test_position_and_step_are_added_at_every_step() -> None:
    """Dehghani et al. 2019, equation 5, at position 2 and step 1 (the second): sin(p) + sin(t) with t from 1."""
    positions = torch.arange(3)[None]
    encoding = SinusoidalPositions(width=4)
    first = add_step(torch.zeros(1, 3, 4), 0, encoding, positions)
    second = add_step(torch.zeros(1, 3, 4), 1, encoding, positions)
    assert first[0, 2].tolist() == pytest.approx(
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)], abs=1e-6
    )
    expected = [math.sin(2) + math.sin(2), 2 * math.cos(2), 2 * math.sin(0.02), 2 * math.cos(0.02)]
    assert second[0, 2].tolist() == pytest.approx(expected, abs=1e-6)
    learned = LearnedPositions(width=4, max_length=3)
    again = add_step(torch.zeros(1, 3, 4), 1, learned, positions)
    torch.testing.assert_close(again - learned.table.weight, second - sinusoids(positions, 4))


def test_halting_is_graves_recurrence() -> None:
    """Each position by itself: N is the first step whose sum reaches the threshold, R what was left before it."""
    torch.manual_seed(0)
    halting = Halting(3, threshold=0.9).double()
    states = torch.randn(5, 2, 6, 3, dtype=torch.float64)  # of each step
    state = halting.start(torch.zeros(2, 6, 3, dtype=torch.float64))
    for step in range(5):
        state = halting(state, states[step], step == 4)
    weight, bias = halting.probability.weight[0].detach(), halting.probability.bias.detach()
    seen = set()
    for row in range(2):
        for place in range(6):
            chances = [float(torch.sigmoid(s @ weight + bias)) for s in states[:, row, place]]
            total, output, steps = 0.0, torch.zeros(3, dtype=torch.float64), 0
            for step, chance in enumerate(chances):
                steps += 1
                if total + chance >= 0.9 or step == 4:
                    output += (1 - total) * states[step, row, place]
                    break
                output += chance * states[step, row, place]
                total += chance
            assert int(state.steps[row, place]) == steps
            assert float(state.remainder[row, place].detach()) == pytest.approx(1 - total)
            torch.testing.assert_close(state.output[row, place], output)
            torch.testing.assert_close(state.hidden[row, place], states[steps - 1, row, place])
            seen.add(steps)
    assert len(seen) > 1  # not all stop at the same step
    tokens = torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    cost = (state.steps + state.remainder).detach()
    assert float(ponder_cost(state, tokens).detach()) == pytest.approx(
        float((cost[0].sum() + cost[1, :2].sum()) / 8)
    )


def test_positions_halt_early_at_first() -> None:
    """The halting unit's bias starts at 1."""
    config = decoder(depth=DEPTH)
    model = language_model_class(config)(config)
    assert [float(m.probability.bias.detach()) for m in model.modules() if isinstance(m, Halting)] == [1.0]


@pytest.mark.parametrize("make", [decoder, encoder, encoder_decoder])
def test_the_ponder_cost_is_in_the_loss_in_training_only(make: type) -> None:
    depth = {"depth": DEPTH} if make is not encoder_decoder else {}
    config: TransformerConfig = make(positions=PositionConfig(kind="sinusoidal"), **depth)
    config.depth = DEPTH
    torch.manual_seed(0)
    model = language_model_class(config)(config).eval()
    ids = torch.arange(3, 15).view(2, 6)
    plain = model(input_ids=ids, labels=ids)
    assert plain.auxiliary_loss is None
    output = model.train()(input_ids=ids, labels=ids)
    torch.testing.assert_close(output.loss, plain.loss + output.auxiliary_loss)
    sides = 2 if make is encoder_decoder else 1
    assert (
        sides * 0.5 < float(output.auxiliary_loss.detach()) < sides * 0.5 * 5
    )  # weight times 1 … 4 steps + remainder
    output.auxiliary_loss.backward()
    halting = [m.probability.weight.grad for m in model.modules() if isinstance(m, Halting)]
    assert all(grad is not None and float(grad.detach().abs().sum()) > 0 for grad in halting)


@pytest.mark.parametrize("make", [decoder, encoder])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(make: type, side: str) -> None:
    model = built(make)
    long, short = torch.arange(3, 12), torch.arange(20, 25)
    alone = model(input_ids=short[None]).logits[0]
    padding = torch.zeros(4, dtype=torch.long)
    row = torch.cat([padding, short] if side == "left" else [short, padding])
    mask = torch.stack([torch.ones_like(long), (row > 0).long()])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    together = model(input_ids=torch.stack([long, row]), attention_mask=mask, position_ids=positions)
    torch.testing.assert_close(together.logits[1][row > 0], alone, rtol=0, atol=1e-10)


def test_a_causal_one_leaks_nothing() -> None:
    model = built(decoder)
    vectors = model.get_input_embeddings()(torch.arange(3, 11)[None]).detach().requires_grad_()
    for place in range(7):
        logits = model(inputs_embeds=vectors, use_cache=False).logits
        (gradient,) = torch.autograd.grad(logits[0, place].square().sum(), vectors)
        assert float(gradient[0, place].abs().sum()) > 0
        assert torch.equal(gradient[0, place + 1 :], torch.zeros_like(gradient[0, place + 1 :]))


def test_steps_differ_by_position_and_are_told() -> None:
    model = built(decoder)
    output = model.model(torch.arange(3, 11)[None], output_hidden_states=True)
    assert output.steps.shape == (1, 8)
    first = int(output.steps.argmin())
    stopped = output.hidden_states[int(output.steps[0, first])][0, first]
    torch.testing.assert_close(output.hidden_states[3][0, first], stopped)  # read by others as it was


def test_size_is_that_of_one_layer_and_cost_that_of_all_steps() -> None:
    one = decoder(depth=DepthConfig(layers=1), positions=PositionConfig(kind="sinusoidal"))
    four = decoder(depth=DEPTH, positions=PositionConfig(kind="sinusoidal"))
    plain = decoder(depth=DepthConfig(layers=4), positions=PositionConfig(kind="sinusoidal"))
    assert num_parameters(four) == num_parameters(one) + 16 + 1  # and the halting unit
    assert flops_per_token(four, 8) == flops_per_token(plain, 8) + 4 * 2 * 16
