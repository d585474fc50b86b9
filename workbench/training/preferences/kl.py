"""How far a policy has moved from its reference: estimators of the Kullback-Leibler divergence from samples.

With ``r`` the reference's probability of a token over the policy's, of tokens that the policy drew, and natural
logarithms (nats), the estimators of KL(policy || reference) are (Schulman 2020, "Approximating KL Divergence"):

- ``k1``: ``-log r``, unbiased, negative for some tokens;
- ``k2``: ``(log r)^2 / 2``, biased, never negative;
- ``k3``: ``r - 1 - log r``, unbiased, never negative, of less variance while both are near.

A token is drawn given those before it, so that a reply's sum over its tokens has the divergence of whole replies as its
mean, with ``k1`` and with ``k3``.
"""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor

from workbench.choices import member
from workbench.errors import ConfigError

__all__ = ["KLEstimator", "kl_of_replies", "kl_of_tokens"]


class KLEstimator(StrEnum):
    """Which estimator; see the module."""

    K1 = "k1"
    K2 = "k2"
    K3 = "k3"


def kl_of_tokens(policy: Tensor, reference: Tensor, estimator: KLEstimator | str = KLEstimator.K1) -> Tensor:
    """An estimate for each token, in nats.

    Args:
        policy: log-probabilities that the policy gave the tokens it drew, of any shape.
        reference: those of the reference, of the same shape.
        estimator: "k1", "k2" or "k3".

    Raises:
        ConfigError: another estimator, or unequal shapes.

    Example:
        ```python
        import torch
        from workbench.training.preferences.kl import kl_of_tokens

        print(kl_of_tokens(torch.tensor([-1.0]), torch.tensor([-2.0]), "k3"))
        ```
    """
    chosen = member(KLEstimator, estimator, "estimator of KL", ConfigError)
    if policy.shape != reference.shape:
        raise ConfigError(
            f"log-probabilities of shapes {tuple(policy.shape)} and {tuple(reference.shape)}; they must be of the same "
            "tokens"
        )
    log_ratio = reference - policy
    if chosen is KLEstimator.K1:
        return -log_ratio
    if chosen is KLEstimator.K2:
        return log_ratio.square() / 2
    return torch.expm1(log_ratio) - log_ratio


def kl_of_replies(
    policy: Tensor, reference: Tensor, mask: Tensor, estimator: KLEstimator | str = KLEstimator.K1
) -> Tensor:
    """An estimate for each reply (B,), in nats: the sum over its tokens.

    Args:
        policy: log-probabilities (B, T) that the policy gave the tokens it drew.
        reference: those of the reference (B, T).
        mask: 1 for tokens of the reply, 0 for padding (B, T); what stands there may be anything.
        estimator: as in :func:`kl_of_tokens`, which it raises as.
    """
    each = kl_of_tokens(policy, reference, estimator)
    return each.masked_fill(mask == 0, 0.0).sum(-1)
