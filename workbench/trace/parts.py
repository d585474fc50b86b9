"""The layer modules of a model, and in each the last projections of its attention and feed-forward part.

Found by watching in which order linear layers run around the attention function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.errors import TraceError
from workbench.trace.attention_hook import AttentionCall, Session, Stack, Watcher
from workbench.trace.observing import session_on
from workbench.trace.structure import Structure, call_model, sample_inputs, structure_of

__all__ = ["Parts", "has_experts", "head_projections", "on_output", "parts_of"]


@dataclass(frozen=True)
class Parts:
    """Names of modules by stack, in the order in which they run first; a shared module stands once."""

    blocks: Mapping[Stack, tuple[str, ...]]
    mlp_outputs: Mapping[Stack, tuple[str, ...]]  # each writes what a feed-forward part adds
    projections: Mapping[int, str]  # id of an attention module -> its output projection
    attention_outputs: Mapping[Stack, tuple[str, ...]]  # the same by stack; empty where one is not found


_known: WeakKeyDictionary[nn.Module, Parts] = WeakKeyDictionary()


def parts_of(model: Any) -> Parts:
    """The parts of a transformers model (examined once)."""
    if model not in _known:
        _known[model] = _examine(model, structure_of(model))
    return _known[model]


@dataclass
class _Order(Watcher):
    """What ran, in order: attention modules (by id), linear layers and ends of blocks."""

    events: list[tuple[str, nn.Module]] = field(default_factory=list)

    def on_weights(self, call: AttentionCall) -> Tensor:
        """Look at the weights."""
        if call.module is not None:
            self.events.append(("attention", call.module))
        return call.weights

    def hook(self, kind: str) -> Callable[..., None]:
        """A forward hook that notes its module."""
        return lambda module, arguments, output: self.events.append((kind, module))


def _examine(model: Any, structure: Structure) -> Parts:
    order = _Order()
    names = {id(module): name for name, module in model.named_modules()}
    blocks = {stack: _blocks(structure.root(model, stack), structure) for stack in structure.roots}
    with ExitStack() as stack:
        for module in {id(m): m for found in blocks.values() for m in found}.values():
            stack.callback(module.register_forward_hook(order.hook("block")).remove)
        for module in model.modules():
            if isinstance(module, nn.Linear | Conv1D):
                stack.callback(module.register_forward_hook(order.hook("linear")).remove)
        stack.enter_context(session_on(model, Session(structure.sites, (order,))))
        call_model(model.base_model, **sample_inputs(model))
    after_attention, before_end = _projections(order.events)
    mlp_outputs = {
        stack: ()
        if any(map(has_experts, found))
        else tuple(names[id(before_end[id(b)])] for b in found if id(b) in before_end)
        for stack, found in blocks.items()
    }
    projections = {site: names[id(module)] for site, module in after_attention.items()}
    return Parts(
        {stack: tuple(names[id(block)] for block in found) for stack, found in blocks.items()},
        mlp_outputs,
        projections,
        {stack: _attention_outputs(structure, stack, projections) for stack in structure.layers},
    )


def _attention_outputs(structure: Structure, stack: Stack, projections: Mapping[int, str]) -> tuple[str, ...]:
    found = [projections.get(site) for site, where in structure.sites.items() if where is stack]
    return () if None in found else tuple(name for name in found if name is not None)


def _projections(events: list[tuple[str, nn.Module]]) -> tuple[dict[int, nn.Module], dict[int, nn.Module]]:
    """First linear layer after each attention module; last linear layer before the end of each block."""
    after_attention: dict[int, nn.Module] = {}
    before_end: dict[int, nn.Module] = {}
    attention: nn.Module | None = None
    linear: nn.Module | None = None
    for kind, module in events:
        if kind == "attention":
            attention = module
        elif kind == "linear":
            linear = module
            if attention is not None:
                after_attention[id(attention)] = module
                attention = None
        elif linear is not None:
            before_end[id(module)] = linear
    return after_attention, before_end


def _blocks(root: nn.Module, structure: Structure) -> tuple[nn.Module, ...]:
    """Elements of the outermost list of modules that hold attention, or of the longest list."""
    lists = [module for module in root.modules() if isinstance(module, nn.ModuleList)]
    holding = [found for found in lists if any(id(m) in structure.sites for m in found.modules())]
    longest: nn.ModuleList = max(lists, key=len, default=nn.ModuleList())
    return tuple(holding[0] if holding else longest)


def has_experts(block: nn.Module) -> bool:
    """In a mixture of experts no single layer writes what the feed-forward part adds."""
    return any("expert" in name or "router" in name for name, _ in block.named_modules())


def head_projections(model: Any, stack: Stack) -> list[Tensor]:
    """Output projection of each attention layer of ``stack`` as (H * d, D) matrices, in layer order.

    Raises :class:`TraceError` where attention is only seen in the model's outputs.
    """
    structure, parts = structure_of(model), parts_of(model)
    found = [parts.projections.get(site) for site, where in structure.sites.items() if where is stack]
    if not found or None in found:
        raise TraceError(
            f"no output projection of the {stack} attention can be found in {type(model).__name__}"
        )
    matrices = [_matrix(model.get_submodule(name)) for name in found if name is not None]
    return matrices * (structure.layers[stack] // len(matrices))  # one shared module runs as every layer


def _matrix(module: nn.Module) -> Tensor:
    weight = module.weight
    assert isinstance(weight, Tensor)
    return (weight if isinstance(module, Conv1D) else weight.T).detach()


@contextmanager
def on_output(
    module: nn.Module, change: Callable[[Tensor], Tensor | None], first: bool = False
) -> Iterator[None]:
    """Call ``change`` with a module's output tensor (the first, if it returns several); ``None`` keeps it.

    What changes an output must come ``first``, so that those that record it see the change.
    """

    def hook(module: nn.Module, arguments: Any, output: Any) -> Any:
        tensor = output if isinstance(output, torch.Tensor) else output[0]
        changed = change(tensor)
        if changed is None:
            return None
        return changed if isinstance(output, torch.Tensor) else (changed, *output[1:])

    handle = module.register_forward_hook(hook, prepend=first)
    try:
        yield
    finally:
        handle.remove()
