"""The arithmetic of attention: softmax(Q Kᵀ / √d) V, with the weights at hand or fused.

Both functions have the signature that transformers' attention registry uses, so either one, or an observer
registered there, can be passed to :class:`~workbench.nn.attention.Attention`.

Vaswani et al. 2017, "Attention Is All You Need", equation 1.
Soft-capping: Gemma Team 2024, "Gemma 2", section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["AttentionFunction", "EffectiveMap", "eager_attention", "repeat_key_value", "sdpa_attention"]


@dataclass(frozen=True)
class EffectiveMap:
    """What an attention that is no softmax over all keys amounts to: heads = ``mix(weights)``.

    ``weights`` (B, H, Q, K) may be negative, and rows need not sum to one. ``mix`` turns them into heads (B, Q, H, d);
    ``None`` is the sum of the values, weighted.
    """

    weights: Tensor
    mix: Callable[[Tensor], Tensor] | None = None


class AttentionFunction(Protocol):
    """Computes attention for one layer; see :func:`eager_attention` for shapes."""

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        *,
        dropout: float,
        scaling: float,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values (B, Q, H, d) and the weights (B, H, Q, K), or ``None`` for the weights."""
        ...


def repeat_key_value(states: Tensor, groups: int) -> Tensor:
    """Give every query head its own copy: (B, H / groups, K, d) to (B, H, K, d).

    Ainslie et al. 2023, "GQA", section 2.2: consecutive query heads share one key/value head.
    """
    if groups == 1:
        return states
    batch, heads, length, size = states.shape
    return states[:, :, None].expand(batch, heads, groups, length, size).reshape(batch, -1, length, size)


def eager_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    effective: EffectiveMap | None = None,
    **_options: Any,
) -> tuple[Tensor, Tensor]:
    """Attention step by step, with the weights returned; they are those of ``effective`` where it is given.

    ``query`` (B, H, Q, d), ``key`` and ``value`` (B, KV, K, d), ``attention_mask`` broadcastable to
    (B, H, Q, K): boolean (true where attention is allowed) or additive. Returns (B, Q, H, d) and weights
    (B, H, Q, K). A row whose keys are all masked gets finite weights, never NaN: masks add the least finite
    number, not -inf.
    """
    groups = getattr(module, "num_key_value_groups", 1)
    key, value = repeat_key_value(key, groups), repeat_key_value(value, groups)
    if effective is None:
        weights = _softmax_of_scores(query, key, attention_mask, scaling, softcap).to(query.dtype)
    else:
        weights = effective.weights
    weights = F.dropout(weights, dropout, module.training)
    if effective is not None and effective.mix is not None:
        return effective.mix(weights), weights
    return (weights @ value).transpose(1, 2), weights


def _softmax_of_scores(
    query: Tensor, key: Tensor, mask: Tensor | None, scaling: float | None, softcap: float | None
) -> Tensor:
    """Weights (B, H, Q, K), in float32 at least."""
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    # Half precision could overflow when the mask is added.
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        else:
            scores = scores + mask
    return scores.softmax(-1)


def sdpa_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    **_options: Any,
) -> tuple[Tensor, None]:
    """The same through PyTorch's fused kernel; the weights never exist. No soft-capping. Shapes as above.

    Without a mask, a causal module attends causally (queries and keys must then start together).
    """
    groups = getattr(module, "num_key_value_groups", 1)
    output = F.scaled_dot_product_attention(
        query,
        repeat_key_value(key, groups),
        repeat_key_value(value, groups),
        attn_mask=attention_mask,
        dropout_p=dropout if module.training else 0.0,
        is_causal=attention_mask is None and query.shape[2] > 1 and bool(getattr(module, "is_causal", False)),
        scale=scaling,
    )
    return output.transpose(1, 2), None
