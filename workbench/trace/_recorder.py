"""Collects what one forward pass of a batch computes, and cuts it into texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench.errors import TraceError
from workbench.shapes import Array
from workbench.trace._trace import Record
from workbench.trace.attention_hook import AttentionCall, Session, Stack, Watcher, active
from workbench.trace.parts import on_output, parts_of

__all__ = ["Recorder", "to_numpy"]


class Recorder(Watcher):
    """A watcher that keeps the chosen layers and heads of one batch."""

    def __init__(
        self,
        record: frozenset[Record],
        layers: Mapping[Stack, tuple[int, ...]],
        heads: Mapping[Stack, tuple[int, ...]],
        main: Stack,
    ) -> None:
        self.record = record
        self._layers = layers
        self._heads = heads
        self._main = main
        self._weights: dict[Stack, dict[int, Tensor]] = {}
        self._projected: dict[str, dict[int, Tensor]] = {}
        self._mlp: dict[int, Tensor] = {}

    def wants(self, stack: Stack, layer: int) -> bool:
        """Whether this layer is looked at."""
        needed = Record.ATTENTION in self.record or (
            Record.QUERIES_KEYS in self.record and stack is self._main
        )
        return needed and layer in self._layers[stack]

    def on_weights(self, call: AttentionCall) -> Tensor:
        """Look at the weights."""
        if Record.ATTENTION in self.record:
            kept = call.weights.detach()[:, list(self._heads[call.stack])].cpu()
            self._weights.setdefault(call.stack, {})[call.layer] = kept
        if Record.QUERIES_KEYS in self.record and call.stack is self._main:
            self._keep_projected(call)
        return call.weights

    def on_heads(self, call: AttentionCall, heads: Tensor) -> Tensor:
        """Go on with what came."""
        return heads

    def _keep_projected(self, call: AttentionCall) -> None:
        if call.query is None or call.key is None or call.value is None:
            return
        shared = call.query.shape[1] // call.key.shape[1]  # query heads that share a key head
        key_heads = sorted({head // shared for head in self._heads[call.stack]})
        for name, tensor, heads in (
            ("query", call.query, list(self._heads[call.stack])),
            ("key", call.key, key_heads),
            ("value", call.value, key_heads),
        ):
            self._projected.setdefault(name, {})[call.layer] = tensor.detach()[:, heads].cpu()

    @contextmanager
    def hooks(self, model: Any, session: Session) -> Iterator[None]:
        """Watch the feed-forward parts too, if they are to be recorded."""
        if Record.MLP not in self.record:
            yield
            return
        modules = parts_of(model).mlp_outputs[self._main]
        if not modules:
            raise TraceError(f"no feed-forward part was found in {type(model).__name__}")

        def keep(output: Tensor) -> None:
            assert output.ndim == 3, f"feed-forward output (B, T, D), got {tuple(output.shape)}"
            if session in active():
                layer = session.next_layer(self._main, "mlp")
                if layer in self._layers[self._main]:
                    self._mlp[layer] = output.detach().cpu()

        with ExitStack() as stack:
            for name in dict.fromkeys(modules):
                stack.enter_context(on_output(model.get_submodule(name), keep))
            yield

    def attention(self, stack: Stack, row: int, queries: int, keys: int) -> Array | None:
        """(L, H, Q, K) of one text, or ``None``."""
        found = self._weights.get(stack)
        if not found:
            return None
        first = next(iter(found.values()))
        out = np.empty((len(self._layers[stack]), first.shape[1], queries, keys), dtype=_dtype(first))
        for i, layer in enumerate(self._layers[stack]):
            weights = found[layer][row]
            if float(weights.sum(-1).max()) > 1.01:
                raise TraceError(
                    "the model returns attention scores, not weights: their rows do not sum to one"
                )
            if weights.shape[-1] < keys or weights.shape[-2] < queries:
                raise TraceError(
                    f"attention of {tuple(weights.shape[-2:])} is not over all {queries} x {keys} tokens: the "
                    "model attends within windows; record={'hidden'} works"
                )
            out[i] = weights[:, :queries, :keys].float().numpy()
        return out

    def projected(self, name: str, row: int, length: int) -> Array | None:
        """Queries, keys or values of one text (L, heads, T, d), or ``None``."""
        found = self._projected.get(name)
        if not found:
            return None
        layers = [found[layer][row, :, :length] for layer in self._layers[self._main]]
        return to_numpy(torch.stack(layers))

    def mlp(self, row: int, length: int) -> Array | None:
        """What the feed-forward parts added to one text (L, T, D), or ``None``."""
        if not self._mlp:
            return None
        return to_numpy(
            torch.stack([self._mlp[n][row, :length].reshape(length, -1) for n in sorted(self._mlp)])
        )


def to_numpy(tensor: Tensor) -> Array:
    """A copy on the CPU, in float32 where NumPy has no such type."""
    tensor = tensor.detach().cpu()
    array: Array = (
        tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.clone()
    ).numpy()
    return array


def _dtype(tensor: Tensor) -> type[np.floating[Any]]:
    return np.float64 if tensor.dtype == torch.float64 else np.float32
