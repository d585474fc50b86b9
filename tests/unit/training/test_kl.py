"""Estimators of KL: values by hand, and means over samples of distributions whose divergence is known."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.errors import ConfigError
from workbench.training.preferences.kl import kl_of_replies, kl_of_tokens

P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
Q = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
KL = float((P * (P / Q).log()).sum())


def test_values_by_hand():
    # r = q / p = e^-1 for log-probabilities -1 and -2
    policy, reference = torch.tensor([-1.0]), torch.tensor([-2.0])
    assert kl_of_tokens(policy, reference, "k1").item() == pytest.approx(1.0)
    assert kl_of_tokens(policy, reference, "k2").item() == pytest.approx(0.5)
    assert kl_of_tokens(policy, reference, "k3").item() == pytest.approx(math.exp(-1))


def test_a_replys_estimate_is_the_sum_over_its_tokens_without_padding():
    policy = torch.tensor([[-1.0, -2.0, float("nan")], [-1.0, -1.0, -1.0]])
    reference = torch.tensor([[-1.5, -1.0, 0.0], [-1.0, -1.0, -3.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    assert kl_of_replies(policy, reference, mask, "k1").tolist() == pytest.approx([-0.5, 2.0])
    by_hand = [math.exp(-0.5) - 1 + 0.5 + math.exp(1.0) - 1 - 1.0, math.exp(-2.0) - 1 + 2.0]
    assert kl_of_replies(policy, reference, mask, "k3").tolist() == pytest.approx(by_hand)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_are_unbiased_for_a_known_pair(estimator):
    torch.manual_seed(0)
    drawn = torch.multinomial(P, 200_000, replacement=True)
    found = kl_of_tokens(P[drawn].log(), Q[drawn].log(), estimator)
    error = float(found.std() / math.sqrt(len(found)))
    assert abs(float(found.mean()) - KL) < 4 * error
    # what a factor of two would be is far outside of that
    assert 20 * error < KL


def test_k2_is_biased_where_the_two_are_far_apart_and_k3_varies_least_where_they_are_near():
    torch.manual_seed(0)
    drawn = torch.multinomial(P, 200_000, replacement=True)
    biased = kl_of_tokens(P[drawn].log(), Q[drawn].log(), "k2")
    assert abs(float(biased.mean()) - KL) > 10 * float(biased.std() / math.sqrt(len(biased)))
    near = (0.98 * P + 0.02 * Q).log()
    spread = {name: float(kl_of_tokens(P[drawn].log(), near[drawn], name).std()) for name in ("k1", "k3")}
    assert spread["k3"] < spread["k1"] / 10


def test_sums_over_tokens_have_the_divergence_of_whole_replies_as_their_mean():
    """Replies of three tokens, each drawn given the one before; the divergence is summed over all 27 replies."""
    torch.manual_seed(1)
    policy, reference = (torch.rand(4, 3, dtype=torch.float64).softmax(-1) for _ in range(2))
    policy = (policy * 4).softmax(-1)
    exact = 0.0
    for a in range(3):
        for b in range(3):
            for c in range(3):
                places = ((3, a), (a, b), (b, c))
                p = math.prod(float(policy[i, j]) for i, j in places)
                q = math.prod(float(reference[i, j]) for i, j in places)
                exact += p * math.log(p / q)
    before, mine, theirs = torch.full((300_000,), 3), [], []
    for _ in range(3):
        token = torch.multinomial(policy[before], 1).squeeze(1)
        mine.append(policy[before, token].log())
        theirs.append(reference[before, token].log())
        before = token
    logs = torch.stack(mine, 1), torch.stack(theirs, 1), torch.ones(300_000, 3)
    for name in ("k1", "k3"):
        found = kl_of_replies(*logs, name)
        error = float(found.std()) / math.sqrt(300_000)
        assert abs(float(found.mean()) - exact) < 4 * error
        assert exact > 10 * error


def test_what_is_refused():
    with pytest.raises(ConfigError, match="'k4'"):
        kl_of_tokens(torch.zeros(1), torch.zeros(1), "k4")
    with pytest.raises(ConfigError, match=r"shapes \(2,\) and \(3,\)"):
        kl_of_tokens(torch.zeros(2), torch.zeros(3))
