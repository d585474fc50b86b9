"""Which query may see which key, as boolean masks: true where attention is allowed.

Masks combine with ``&``; :func:`as_additive` turns one into what is added to the scores.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "add_bias",
    "as_additive",
    "blocked_value",
    "causal_mask",
    "layer_types",
    "padding_mask",
    "sliding_window_mask",
]


def blocked_value(dtype: torch.dtype) -> float:
    """What is added to a blocked score: the least finite number, so that an all-padding row gives no NaN."""
    return torch.finfo(dtype).min


def padding_mask(mask: Tensor) -> Tensor:
    """Hide padded keys: (B, K), nonzero at tokens, to (B, 1, 1, K)."""
    return (mask != 0)[:, None, None, :]


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """No key after its query: (Q, K). The last query stands at the last key, as with a cache."""
    query, key = _positions(queries, keys, device)
    return key <= query


def sliding_window_mask(
    queries: int, keys: int, window: int, *, two_sided: bool = False, device: torch.device | None = None
) -> Tensor:
    """Local attention (Q, K); Beltagy et al. 2020, "Longformer", section 3.1.

    One-sided: the query itself and the ``window - 1`` keys before it, as in Jiang et al. 2023, "Mistral 7B".
    Two-sided: keys at a distance of at most ``window`` on either side.
    """
    query, key = _positions(queries, keys, device)
    if two_sided:
        return (query - key).abs() <= window
    return (key <= query) & (key > query - window)


def layer_types(layers: int, window: int | None, global_every: int | None) -> list[str]:
    """Which layers are local: all, when there is a window; every ``global_every``-th one is global.

    Interleaving as in Gemma 2 (Gemma Team 2024, section 2). The names are transformers' ``layer_types``.
    """
    if window is None:
        return ["full_attention"] * layers
    is_global = [global_every is not None and (i + 1) % global_every == 0 for i in range(layers)]
    return ["full_attention" if wide else "sliding_attention" for wide in is_global]


def as_additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Zero where the boolean ``mask`` allows attention, the least finite number elsewhere."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, blocked_value(dtype))


def add_bias(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """A position bias (1, H, Q, K) and a mask, boolean or additive (B, 1, Q, K), as one additive mask."""
    if bias is None:
        return mask
    if mask is None:
        return bias
    if mask.dtype == torch.bool:
        return bias.masked_fill(~mask, blocked_value(bias.dtype))
    return (bias + mask).clamp(min=blocked_value(bias.dtype))


def _positions(queries: int, keys: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
    key = torch.arange(keys, device=device)
    return key[keys - queries :, None], key[None, :]
