"""The attention function that lets itself be watched, and the session that says who is watching.

transformers looks the attention function up by the name in ``config._attn_implementation``. Ours computes
the softmax in the open and hands queries, keys, values and weights to the sessions of the current context.
Where no session wants a layer's weights it is the fused kernel that runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask

from workbench.nn import EffectiveMap

__all__ = [
    "IMPLEMENTATION",
    "AttentionCall",
    "Session",
    "Stack",
    "Watcher",
    "active",
    "attention_implementation",
]

IMPLEMENTATION = "workbench_observed"


class Stack(StrEnum):
    """Which attention of a model: self-attention of the encoder or decoder, or from decoder to encoder."""

    ENCODER = "encoder"
    DECODER = "decoder"
    CROSS = "cross"


@dataclass
class AttentionCall:
    """One run of one attention layer. Tensors are the model's own: copy what you keep.

    ``weights`` is (B, H, Q, K) after the softmax, ``query`` (B, H, Q, d), ``key`` and ``value``
    (B, key heads, K, d). The last three are ``None`` where attention comes from the model's outputs. ``masks`` are
    what the model adds to its scores or, where they are boolean, keeps of them.
    """

    module: nn.Module | None
    stack: Stack
    layer: int
    weights: Tensor
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    masks: tuple[Tensor, ...] = ()

    def visible(self) -> Bool[Tensor, "B 1 Q K"]:
        """Keys that each query may attend to, by the model's own mask.

        Where attention comes from the model's outputs, keys with any weight in any head.
        """
        if self.query is None:
            return (self.weights > 0).any(1, keepdim=True)
        seen = torch.ones_like(self.weights[:, :1], dtype=torch.bool)
        for mask in self.masks:
            kept = mask if mask.dtype == torch.bool else mask > _MASKED
            seen = seen & (kept.any(1, keepdim=True) if kept.ndim == 4 else kept)
        return seen


_MASKED = -1e4  # added to a score: its weight is zero in every floating-point type


class Watcher:
    """What a session contains: it sees attention, and may change weights and head outputs; this one changes nothing."""

    def wants(self, stack: Stack, layer: int) -> bool:
        """Whether this watcher needs the attention weights of a layer."""
        return True

    def on_weights(self, call: AttentionCall) -> Tensor:
        """See the weights; return the ones with which the model goes on."""
        return call.weights

    def on_heads(self, call: AttentionCall, heads: Tensor) -> Tensor:
        """See each head's output (B, Q, H, d) before the output projection; return the one to go on with."""
        return heads


@dataclass(eq=False)
class Session:
    """One ``with`` block that watches one model. Counts the layers of a pass in the order they run."""

    sites: Mapping[int, Stack]  # id of an attention module -> its stack
    watchers: tuple[Watcher, ...]
    calls: dict[tuple[Stack, str], int] = field(default_factory=dict)

    def next_layer(self, stack: Stack, part: str = "attention") -> int:
        """Number of the layer of ``stack`` that runs now, counted separately for each ``part`` of a layer."""
        self.calls[stack, part] = self.calls.get((stack, part), -1) + 1
        return self.calls[stack, part]

    def begin(self, stacks: tuple[Stack, ...]) -> None:
        """Start counting the layers of ``stacks`` at 0 again."""
        self.calls = {key: count for key, count in self.calls.items() if key[0] not in stacks}


_sessions: ContextVar[tuple[Session, ...]] = ContextVar("workbench_sessions", default=())


def active() -> tuple[Session, ...]:
    """Sessions open in this thread, outermost first."""
    return _sessions.get()


@contextmanager
def opened(session: Session) -> Iterator[None]:
    """Make ``session`` one of the open sessions of this thread."""
    token = _sessions.set((*_sessions.get(), session))
    try:
        yield
    finally:
        _sessions.reset(token)


def observed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sinks: Tensor | None = None,
    effective: EffectiveMap | None = None,
    **unused: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention as registered with transformers: output (B, Q, H, d) and weights where they were computed.

    ``softcap`` bounds the scores, ``position_bias`` is added to them, and ``s_aux`` or ``sinks`` is a learned
    score per head that takes part in the softmax and has no key (its rows then sum to less than one). ``effective``
    brings weights that are no softmax of the scores, such as those of the built-in efficient forms.
    """
    sink = s_aux if s_aux is not None else sinks
    if attention_mask is None and getattr(module, "is_causal", False) and query.shape[2] > 1:
        attention_mask = _causal_mask(query, key)  # a pass that began under SDPA leaves it to the kernel
    pairs = _watchers(module)
    if not pairs and softcap is None and sink is None and effective is None:
        return sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            dropout,
            scaling,
            is_causal=False,
            position_bias=position_bias,
        )
    if effective is None:
        scores = _scores(query, key, query.shape[-1] ** -0.5 if scaling is None else scaling)
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        weights = _softmax(scores, position_bias, attention_mask, sink)
    else:
        weights = effective.weights
    masks = tuple(mask for mask in (position_bias, attention_mask) if mask is not None)
    call = partial(AttentionCall, module, query=query, key=key, value=value, masks=masks)
    for watcher, stack, layer in pairs:
        weights = watcher.on_weights(call(stack, layer, weights))
    weights_used = weights.to(value.dtype)  # watchers see float32, whatever the model computes in
    dropped = nn.functional.dropout(weights_used, p=dropout, training=module.training)
    mix = None if effective is None else effective.mix
    heads = _mix(dropped, value) if mix is None else mix(dropped)
    for watcher, stack, layer in pairs:
        heads = watcher.on_heads(call(stack, layer, weights), heads)
    return heads, weights_used


def _watchers(module: nn.Module) -> list[tuple[Watcher, Stack, int]]:
    """Who wants to see this run of an attention module, with its stack and the number of its layer."""
    watching = [(session, session.sites[id(module)]) for session in active() if id(module) in session.sites]
    numbered = [(session, stack, session.next_layer(stack)) for session, stack in watching]
    return [
        (watcher, stack, layer)
        for session, stack, layer in numbered
        for watcher in session.watchers
        if watcher.wants(stack, layer)
    ]


def _causal_mask(query: Tensor, key: Tensor) -> Tensor:
    allowed = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    return allowed.tril(key.shape[2] - query.shape[2])


def _scores(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    """(B, H, Q, K); several query heads may share a key head."""
    batch, heads, length, width = query.shape
    shared = (query * scaling).reshape(batch, key.shape[1], -1, width)  # (B, key heads, sharing * Q, d)
    return (shared @ key.transpose(-1, -2)).reshape(batch, heads, length, key.shape[2])


def _softmax(scores: Tensor, bias: Tensor | None, mask: Tensor | None, sink: Tensor | None) -> Tensor:
    """Softmax in float32 at least, whatever the model computes in."""
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            if mask.dtype == torch.bool
            else scores + mask
        )
    precision = torch.promote_types(scores.dtype, torch.float32)
    if sink is None:
        return torch.softmax(scores, dim=-1, dtype=precision)
    column = sink.reshape(1, -1, 1, 1) if sink.ndim == 1 else sink
    with_sink = torch.cat([scores, column.expand(*scores.shape[:-1], 1).to(scores.dtype)], dim=-1)
    return torch.softmax(with_sink, dim=-1, dtype=precision)[..., :-1]


def _mix(weights: Tensor, value: Tensor) -> Tensor:
    """(B, H, Q, K) and (B, key heads, K, d) to (B, Q, H, d)."""
    batch, heads, length, keys = weights.shape
    shared = weights.reshape(batch, value.shape[1], -1, keys) @ value
    return shared.reshape(batch, heads, length, value.shape[-1]).transpose(1, 2).contiguous()


AttentionInterface.register(IMPLEMENTATION, observed_attention)
AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)


@dataclass
class _Switch:
    """How many sessions need a model switched, and what to put back after the last of them."""

    users: int
    previous: list[tuple[Any, str | None, bool]]


_switches: WeakKeyDictionary[nn.Module, dict[str, _Switch]] = WeakKeyDictionary()
_switch_lock = threading.Lock()


@contextmanager
def attention_implementation(model: nn.Module, name: str, output_attentions: bool = False) -> Iterator[None]:
    """Let ``model`` use the attention implementation ``name``; the last user to leave puts the old one back.

    Sub-models carry configurations of their own, so every distinct one is switched. Threads that share the
    model only count themselves in and out here; nothing else is shared between them.
    """
    with _switch_lock:
        switches = _switches.setdefault(model, {})
        if name not in switches:
            switches[name] = _Switch(0, _set_all(model, name, output_attentions))
        switches[name].users += 1
    try:
        yield
    finally:
        with _switch_lock:
            switches[name].users -= 1
            if switches[name].users == 0:
                _restore(switches.pop(name).previous)


def _set_all(model: nn.Module, name: str, output_attentions: bool) -> list[tuple[Any, str | None, bool]]:
    configs = {id(c): c for c in _configs(model)}.values()
    previous = [(c, c._attn_implementation_internal, c._output_attentions) for c in configs]
    for config in configs:
        config._attn_implementation_internal = name
        config._output_attentions = output_attentions
    return previous


def _restore(previous: list[tuple[Any, str | None, bool]]) -> None:
    for config, implementation, output_attentions in previous:
        config._attn_implementation_internal = implementation
        config._output_attentions = output_attentions


def _configs(model: nn.Module) -> Iterator[Any]:
    for module in model.modules():
        config = getattr(module, "config", None)
        if config is not None and hasattr(config, "_attn_implementation_internal"):
            yield config
            yield from (sub for key in config.sub_configs if (sub := getattr(config, key, None)) is not None)
