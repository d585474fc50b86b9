"""Routers and experts against loops over tokens, and what capacity, padding and batches may not change."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.unit.models.tiny import decoder, encoder, encoder_decoder
from workbench.models.auto import AUTO_CLASSES
from workbench.models.configuration import TransformerConfig
from workbench.models.parts import FeedForwardConfig
from workbench.models.presets import preset
from workbench.models.size import flops_per_token, language_model_class, num_active_parameters, num_parameters
from workbench.nn import Experts, FeedForward, Router, Routing, balance_loss
from workbench.training.loop import scored_loss


def parts(chosen: int, experts: int = 4, **settings: object) -> tuple[Router, Experts]:
    torch.manual_seed(0)
    router = Router(width=6, experts=experts, chosen=chosen, **settings)  # type: ignore[arg-type]
    return router, Experts(lambda: FeedForward(width=6, size=5, activation=F.relu), experts)


def states(rows: int = 2, length: int = 7) -> Tensor:
    return torch.randn(rows, length, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("chosen", [1, 2])
def test_each_token_gets_the_weighted_sum_of_its_experts(chosen: int) -> None:
    """Shazeer et al. 2017, equations 1, 3 and 5; with one expert Fedus et al. 2022, equation 2."""
    router, experts = parts(chosen)
    hidden = states()
    found = experts(hidden, router(hidden))
    for row in range(2):
        for place in range(7):
            token = hidden[row, place]
            scores = [float(weight @ token) for weight in router.scores.weight.detach()]
            best = sorted(range(4), key=lambda n: -scores[n])[:chosen]
            over = best if chosen > 1 else range(4)
            total = sum(math.exp(scores[n]) for n in over)
            expected = sum(math.exp(scores[n]) / total * experts.experts[n](token) for n in best)
            torch.testing.assert_close(found[row, place], expected)


def test_capacity_in_training_goes_to_earlier_tokens() -> None:
    """5 tokens, 2 experts of capacity ⌈0.8 · 5 / 2⌉ = 2; all but the fourth choose expert 0."""
    router = Router(width=1, experts=2, capacity_factor=0.8)
    with torch.no_grad():
        router.scores.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    hidden = torch.tensor([[[1.0], [2.0], [1.0], [-1.0], [1.0], [9.0]]])
    tokens = torch.tensor([[True] * 5 + [False]])
    routing = router(hidden, tokens)
    assert routing.experts[0, :, 0].tolist() == [0, 0, 0, 1, 0, 0]
    assert (routing.weights[0, :, 0] > 0).tolist() == [True, True, False, True, False, False]
    router.eval()
    assert (router(hidden, tokens).weights[0, :, 0] > 0).tolist() == [True] * 5 + [False]

    both = Router(width=1, experts=2, chosen=2, capacity_factor=0.5)  # room for ⌈0.5 · 2 · 3 / 2⌉ = 2
    both.scores.weight = router.scores.weight
    kept = both(torch.tensor([[[-1.0], [1.0], [1.0]]])).weights > 0
    assert kept[0].tolist() == [[True, True], [True, True], [False, False]]


def test_a_token_over_capacity_goes_on_by_the_residual() -> None:
    router, experts = parts(1, capacity_factor=1e-9)  # room for one token
    hidden = states()
    routing = router(hidden)
    refused = routing.weights[..., 0] == 0
    assert int((~refused).sum()) == len(set(routing.experts.flatten().tolist()))
    assert torch.equal(experts(hidden, routing)[refused], torch.zeros(int(refused.sum()), 6))


def test_balance_loss_by_hand() -> None:
    """Shares 2/3 and 1/3, mean probabilities 0.6 and 0.4, the padded token left out: 2 (0.4 + 0.4 / 3)."""
    routing = Routing(
        torch.tensor([[[0], [0], [1], [1]]]),
        torch.ones(1, 4, 1),
        torch.tensor([[[0.8, 0.2], [0.7, 0.3], [0.3, 0.7], [0.0, 1.0]]]),
        torch.tensor([[True, True, True, False]]),
    )
    assert float(balance_loss(routing)) == pytest.approx(2 * (2 / 3 * 0.6 + 1 / 3 * 0.4))
    even = Routing(torch.arange(4).view(1, 4, 1), torch.ones(1, 4, 1), torch.full((1, 4, 4), 0.25))
    assert float(balance_loss(even)) == 1.0


def test_noise_is_added_in_training_only() -> None:
    router, _ = parts(2, is_noisy=True)
    hidden = states()
    assert not torch.equal(router(hidden).probabilities, router(hidden).probabilities)
    router.eval()
    expected = (hidden @ router.scores.weight.T).softmax(-1)
    torch.testing.assert_close(router(hidden).probabilities, expected)


SWITCH = FeedForwardConfig(size=24, experts=4, capacity_factor=0.5, balance=0.1)


@pytest.mark.parametrize("make", [decoder, encoder, encoder_decoder])
def test_the_loss_has_the_balance_loss_in_training_only(make: type) -> None:
    config: TransformerConfig = make(feed_forward=SWITCH)
    torch.manual_seed(0)
    model = language_model_class(config)(config).eval()
    ids = torch.arange(3, 15).view(2, 6)
    batch = {"input_ids": ids, "labels": ids}
    assert model(**batch).auxiliary_loss is None
    plain = model(**batch)
    model.train()
    for module in model.modules():
        if isinstance(module, Router):
            module.capacity_factor = None  # so that training computes what evaluation does
    output = model(**batch)
    assert float(output.auxiliary_loss.detach()) >= 0.1 * model.config.depth.layers * 0.9
    torch.testing.assert_close(output.loss, plain.loss + output.auxiliary_loss)
    scored = 10 if make is decoder else 12
    half = model(**batch, num_items_in_batch=2 * scored).loss
    torch.testing.assert_close(half, output.loss / 2)
    output.auxiliary_loss.backward()
    routers = [m.scores.weight.grad for m in model.modules() if isinstance(m, Router)]
    assert all(float(grad.detach().abs().sum()) > 0 for grad in routers)


def test_training_on_labelled_places_has_the_auxiliary_loss_too() -> None:
    config = encoder(feed_forward=SWITCH)
    model = language_model_class(config)(config).train()
    ids = torch.arange(3, 15).view(2, 6)
    output = model(input_ids=ids)
    expected = F.cross_entropy(output.logits.flatten(0, 1), ids.flatten()) + output.auxiliary_loss
    torch.testing.assert_close(scored_loss(output, ids), expected)


@pytest.mark.parametrize("make", [decoder, encoder])
def test_padding_and_batch_change_nothing_in_evaluation(make: type) -> None:
    config: TransformerConfig = make(feed_forward=SWITCH)
    torch.manual_seed(0)
    model = language_model_class(config)(config).double().eval()
    long, short = torch.arange(3, 12), torch.arange(20, 25)
    alone = model(input_ids=short[None]).logits[0]
    for side in ("left", "right"):
        padding = torch.zeros(4, dtype=torch.long)
        row = torch.cat([padding, short] if side == "left" else [short, padding])
        mask = torch.stack([torch.ones_like(long), (row > 0).long()])
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        ids = torch.stack([long, row])
        together = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits[1][row > 0]
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_size_counts_all_experts_and_cost_the_chosen_ones() -> None:
    """Of one expert: 2 · 16 · 24 weights and 24 + 16 biases; of a router 16 · 4."""
    plain, mixture = decoder(), decoder(feed_forward=FeedForwardConfig(size=24, experts=4))
    one, router, layers = 2 * 16 * 24 + 24 + 16, 16 * 4, 2
    assert num_parameters(mixture) == num_parameters(plain) + layers * (3 * one + router)
    assert num_active_parameters(mixture) == num_parameters(plain) + layers * router
    assert num_active_parameters(plain) == num_parameters(plain)
    assert flops_per_token(mixture, 8) == flops_per_token(plain, 8) + layers * 2 * router
    two = decoder(feed_forward=FeedForwardConfig(size=24, experts=4, experts_per_token=2))
    assert flops_per_token(two, 8) == flops_per_token(mixture, 8) + layers * 2 * (2 * 16 * 24)


@pytest.mark.parametrize("chosen", [1, 2])
def test_nothing_leaks_even_where_experts_are_full(chosen: int) -> None:
    """In training: neither by gradients, nor by who takes the room."""
    config = decoder(feed_forward=replace(SWITCH, experts_per_token=chosen), initializer_range=0.3)
    torch.manual_seed(0)
    model = language_model_class(config)(config).train()
    ids = torch.arange(3, 11)[None]
    expected = model(ids).logits
    for place in range(7):
        changed = torch.cat([ids[:, : place + 1], ids[:, place + 1 :] + 12], dim=1)
        torch.testing.assert_close(model(changed).logits[:, : place + 1], expected[:, : place + 1])
        vectors = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=vectors).logits
        (gradient,) = torch.autograd.grad(logits[0, place].square().sum(), vectors)
        assert torch.equal(gradient[0, place + 1 :], torch.zeros_like(gradient[0, place + 1 :]))


def test_every_second_layer() -> None:
    config = preset("switch-tiny")
    body = AUTO_CLASSES[type(config)]["AutoModel"](config)  # type: ignore[index]
    assert [layer.router is not None for layer in body.stack.layers] == [False, True, False, True]  # type: ignore[union-attr]
