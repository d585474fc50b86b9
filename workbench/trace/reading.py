"""Passes of whose last layer only some positions are read: its linear maps need not run anywhere else.

Keys and values are wanted at every position; queries, the attention's output and the feed-forward part only
where somebody reads. Which maps those are is found by trying, never from their names.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers.pytorch_utils import Conv1D

from workbench.errors import TraceError
from workbench.trace.hooks import SharedHooks
from workbench.trace.observing import active
from workbench.trace.parts import has_experts, parts_of
from workbench.trace.structure import call_model, sample_inputs, structure_of

__all__ = ["examine_reading", "reading_only"]

# Positions of the sample at which its output is compared; some tokens stand before, between and behind them.
_READ = (1, 3)


def examine_reading(model: Any, first: bool = False) -> None:
    """Find the maps now, with a few small passes, rather than when :func:`reading_only` is first opened."""
    with _LOCK:
        _maps_of(model).examined(model, first)


@contextmanager
def reading_only(model: Any, positions: Int[Tensor, " N"], first: bool = False) -> Iterator[None]:
    """While open, in this thread, maps of the last layer run only at flat ``positions`` (row * T + column).

    Their outputs are zero elsewhere, so what the model gives at other positions means nothing. With ``first``
    the head is one that reads the first position of each row alone. Where no such map is found, as in a
    model that shares its layers' weights, nothing is left out; nor while attention is watched or changed.
    """
    if active():
        yield
        return
    with _LOCK:
        maps = _maps_of(model)
        chosen = maps.examined(model, first)
    before, maps.here.positions = getattr(maps.here, "positions", None), positions
    try:
        with maps.hooks.on(*chosen):
            yield
    finally:
        maps.here.positions = before


class _Maps:
    """The maps that can be left out, and hooks on them; shared by threads, which have positions of their own."""

    def __init__(self) -> None:
        self.here = threading.local()
        self._found: dict[bool, tuple[nn.Module, ...]] = {}
        self.hooks = SharedHooks(self._put)

    def examined(self, model: Any, first: bool) -> tuple[nn.Module, ...]:
        """The maps that matter only where the output is read; examined once."""
        if first not in self._found:
            self._found[first] = _examine(model, (0,) if first else _READ)
        return self._found[first]

    def _put(self, module: nn.Module) -> tuple[RemovableHandle, RemovableHandle]:
        return (
            module.register_forward_pre_hook(self._gather),
            module.register_forward_hook(self._scatter, prepend=True),
        )

    def _gather(self, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        positions = getattr(self.here, "positions", None)
        if positions is None:
            return None
        hidden = arguments[0]
        self.here.shape = hidden.shape[:-1]
        return (hidden.reshape(-1, hidden.shape[-1]).index_select(0, positions)[None], *arguments[1:])

    def _scatter(self, module: nn.Module, arguments: Any, output: Tensor) -> Tensor | None:
        positions = getattr(self.here, "positions", None)
        if positions is None:
            return None
        shape, width = self.here.shape, output.shape[-1]
        everywhere = output.new_zeros(shape.numel(), width).index_copy(0, positions, output[0])
        return everywhere.view(*shape, width)


_LOCK = threading.RLock()
_known: WeakKeyDictionary[nn.Module, _Maps] = WeakKeyDictionary()


def _maps_of(model: Any) -> _Maps:
    return _known.setdefault(model, _Maps())


def _examine(model: Any, read: tuple[int, ...]) -> tuple[nn.Module, ...]:
    """Linear maps of the last layer that may give anything at other positions without a change of what is read."""
    try:
        blocks = parts_of(model).blocks[structure_of(model).main]
    except TraceError:  # no attention that can be observed
        return ()
    if not blocks:
        return ()
    layer = model.get_submodule(blocks[-1])
    if has_experts(layer):  # tokens may take an expert's room from one another
        return ()
    inputs = sample_inputs(model)
    length = inputs["decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"].shape[1]
    kept = torch.zeros(length, 1, dtype=torch.bool, device=model.device)
    kept[[position for position in read if position < length]] = True

    def outcome(*modules: nn.Module) -> Tensor | None:
        """What is read with noise elsewhere in what ``modules`` give; ``None`` if one gives nothing by position."""
        covers = [_Cover(kept) for _ in modules]
        with ExitStack() as stack:
            for module, cover in zip(modules, covers, strict=True):
                stack.callback(module.register_forward_hook(cover).remove)
            logits: Tensor | None = getattr(call_model(model, **inputs), "logits", None)
        if logits is None or not all(cover.ran for cover in covers):
            return None
        return logits if logits.ndim < 3 else logits[:, kept[:, 0]]

    whole = outcome()
    maps = [module for module in layer.modules() if isinstance(module, nn.Linear | Conv1D)]
    return tuple(module for module in maps if _equal(outcome(module), whole))


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one, other)


class _Cover:
    """A hook, for the thread that made it, with noise for a map's output except where ``kept`` (T, 1)."""

    def __init__(self, kept: Tensor) -> None:
        self.ran = False
        self._kept, self._thread = kept, threading.get_ident()

    def __call__(self, module: nn.Module, arguments: Any, output: Tensor) -> Tensor | None:
        if threading.get_ident() != self._thread or output.shape[:-1] != (1, len(self._kept)):
            return None
        self.ran = True
        waves = torch.arange(output.numel(), device=output.device).sin().view_as(output)
        return torch.where(self._kept, output, 10 * output.abs().max() * waves.to(output) + 1)
