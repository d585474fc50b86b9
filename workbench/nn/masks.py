"""Which query may see which key: the rule that the models run, and masks of it, true where attention is allowed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "AttentionRule",
    "add_bias",
    "causal_mask",
    "layer_types",
    "sliding_window_mask",
]


@dataclass(frozen=True)
class AttentionRule:
    """Causal: no key after its query. ``window``: local attention; Beltagy et al. 2020, "Longformer", section 3.1.

    A causal window is the query itself and the ``window - 1`` keys before it, as in Jiang et al. 2023, "Mistral
    7B"; one to both sides holds the keys at a distance of at most ``window``. ``documents`` (B, T) numbers those
    that the tokens of packed rows belong to, which attention does not leave.
    """

    is_causal: bool
    window: int | None = None
    documents: Tensor | None = None

    def __call__(self, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Whether attention is allowed; row of the batch, head and positions are indices that broadcast."""
        allowed = key <= query if self.is_causal else query >= 0
        if self.window is not None:
            allowed = allowed & ((query - key).abs() <= self.window - self.is_causal)
        if self.documents is not None:
            allowed = allowed & (self.documents[row, query] == self.documents[row, key])
        return allowed


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """No key after its query: (Q, K). The last query stands at the last key, as with a cache."""
    return _mask(AttentionRule(is_causal=True), queries, keys, device)


def sliding_window_mask(
    queries: int, keys: int, window: int, *, two_sided: bool = False, device: torch.device | None = None
) -> Tensor:
    """Local attention (Q, K), as :class:`AttentionRule` says; the last query stands at the last key."""
    return _mask(AttentionRule(is_causal=not two_sided, window=window), queries, keys, device)


def _mask(rule: AttentionRule, queries: int, keys: int, device: torch.device | None) -> Tensor:
    key, zero = torch.arange(keys, device=device), torch.zeros((), dtype=torch.long, device=device)
    return rule(zero, zero, key[keys - queries :, None], key[None, :])


def layer_types(layers: int, window: int | None, global_every: int | None) -> list[str]:
    """Which layers are local: all, when there is a window; every ``global_every``-th one is global.

    Interleaving as in Gemma 2 (Gemma Team 2024, section 2). The names are transformers' ``layer_types``.
    """
    if window is None:
        return ["full_attention"] * layers
    is_global = [global_every is not None and (i + 1) % global_every == 0 for i in range(layers)]
    return ["full_attention" if wide else "sliding_attention" for wide in is_global]


def add_bias(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """A position bias (1, H, Q, K) and a mask, boolean or additive (B, 1, Q, K), as one additive mask.

    A blocked score gets the least finite number, so that a row of padding alone gives no NaN.
    """
    if bias is None:
        return mask
    if mask is None:
        return bias
    blocked = torch.finfo(bias.dtype).min
    return bias.masked_fill(~mask, blocked) if mask.dtype == torch.bool else (bias + mask).clamp(min=blocked)
