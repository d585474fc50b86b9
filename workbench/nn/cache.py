"""Keys and values kept between the steps of generation, so that each step computes one new token only."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

__all__ = ["KeyValueCache", "KeyValueStore"]


class KeyValueStore(Protocol):
    """What attention asks of a cache. The layers of one model share a store and name themselves by index."""

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Add keys and values (B, KV, new, d) of a layer; everything it holds (B, KV, K, d) comes back."""
        ...

    def stored(self, layer_idx: int) -> tuple[Tensor, Tensor] | None:
        """What a layer holds, or ``None`` before the first update."""
        ...


class KeyValueCache:
    """A cache that grows by concatenation; Shazeer 2019, "Fast Transformer Decoding", section 2.4."""

    def __init__(self) -> None:
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Append (B, KV, new, d) to a layer and return all that it holds."""
        if (held := self._layers.get(layer_idx)) is not None:
            key_states = torch.cat((held[0], key_states), dim=-2)
            value_states = torch.cat((held[1], value_states), dim=-2)
        self._layers[layer_idx] = (key_states, value_states)
        return key_states, value_states

    def stored(self, layer_idx: int) -> tuple[Tensor, Tensor] | None:
        """What a layer holds, or ``None``."""
        return self._layers.get(layer_idx)

    def __len__(self) -> int:
        """Tokens held by the first layer."""
        return self._layers[0][0].shape[-2] if 0 in self._layers else 0
