"""Multi-head attention: self or cross, with grouped or single key/value heads, with a key/value cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from workbench.nn.attention_functions import AttentionFunction, eager_attention
from workbench.nn.positions.base import Angles, PositionEncoding
from workbench.nn.residual import BranchInput, BranchOutput

__all__ = ["Attention", "AttentionContext", "KeyValueStore"]


class KeyValueStore(Protocol):
    """What attention asks of a cache. The layers of one model share a store and name themselves by index."""

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Add keys and values (B, KV, new, d) of a layer; everything it holds (B, KV, K, d) comes back."""
        ...

    def stored(self, layer_idx: int) -> tuple[Tensor, Tensor] | None:
        """What a layer holds, or ``None`` before the first update."""
        ...


@dataclass(frozen=True)
class AttentionContext:
    """What every layer's attention needs besides its hidden states; made once per forward pass."""

    mask: Tensor | None = None  # (B, 1 or H, Q, K): boolean, or additive with the position bias in it
    function: AttentionFunction = eager_attention
    positions: PositionEncoding | None = None  # cross-attention has none: the source is placed already
    angles: Angles | None = None  # of the query positions, for positions that rotate
    cache: KeyValueStore | None = None
    source: Tensor | None = None  # (B, K, D): what cross-attention attends to
    tokens: Tensor | None = (
        None  # (B, K), true at tokens, for forms that make their own pattern and for routers; ``None``: all are
    )


class Attention(nn.Module):
    """Vaswani et al. 2017, section 3.2.2; one key/value head: Shazeer 2019; grouped: Ainslie et al. 2023.

    Hidden states (B, Q, D) in, (B, Q, D) and weights (B, H, Q, K) out; cross-attention reads the context's source.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        key_value_heads: int | None = None,
        head_size: int | None = None,
        bias: bool = True,
        output_bias: bool = True,
        scaling: float | None = None,
        softcap: float | None = None,
        dropout: float = 0.0,
        is_causal: bool = False,
        is_cross_attention: bool = False,
        layer_idx: int = 0,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.key_value_heads = key_value_heads or heads
        self.head_size = head_size or width // heads
        # The names below are those by which attention functions in transformers' registry know a module.
        self.num_key_value_groups = self.heads // self.key_value_heads
        self.scaling = self.head_size**-0.5 if scaling is None else scaling
        self.is_causal = is_causal
        self.is_cross_attention = is_cross_attention
        self.layer_idx = layer_idx
        self.options = {} if softcap is None else {"softcap": softcap}
        self.dropout = dropout

        self.query = nn.Linear(width, self.heads * self.head_size, bias=bias)
        self.key = nn.Linear(width, self.key_value_heads * self.head_size, bias=bias)
        self.value = BranchInput(width, self.key_value_heads * self.head_size, bias=bias)
        self.output = BranchOutput(self.heads * self.head_size, width, bias=output_bias)

    def forward(self, hidden: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor | None]:
        """Attend from ``hidden`` to itself, or to the context's source in cross-attention."""
        cache = context.cache
        stored = cache.stored(self.layer_idx) if cache is not None and self.is_cross_attention else None
        if stored is not None:  # the source does not change while text is generated
            query, (key, value) = self._split(self.query(hidden)), stored
        else:
            query, key, value = self.project(hidden, context)
            if cache is not None:
                key, value = cache.update(key, value, self.layer_idx)
        output, weights = self.attend(hidden, query, key, value, context)
        return self.output(output.flatten(2)), weights  # (B, Q, H, d) to (B, Q, D)

    def project(self, hidden: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, Q, d), and keys and values (B, KV, K, d), rotated where the positions say so."""
        attended = hidden if context.source is None else context.source
        query, key = self._split(self.query(hidden)), self._split(self.key(attended))
        if context.positions is not None:
            query, key = context.positions.rotate_query_key(query, key, context.angles)
        return query, key, self._split(self.value(attended))

    def attend(
        self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext
    ) -> tuple[Tensor, Tensor | None]:
        """Heads (B, Q, H, d) and weights (B, H, Q, K) of queries (B, H, Q, d) and keys and values (B, KV, K, d)."""
        dropout = self.dropout if self.training else 0.0
        return context.function(
            self, query, key, value, context.mask, dropout=dropout, scaling=self.scaling, **self.options
        )

    def _split(self, states: Tensor) -> Tensor:
        """(B, T, heads * d) to (B, heads, T, d)."""
        return states.unflatten(-1, (-1, self.head_size)).transpose(1, 2)
