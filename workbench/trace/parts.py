"""The layer modules of a model, and in each what its attention and feed-forward part project and add.

Found by watching in which order linear layers run around the attention function, and what reads their outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.errors import TraceError
from workbench.models.dispatched import weights_in_memory
from workbench.trace.attention_hook import AttentionCall, Session, Stack, Watcher
from workbench.trace.observing import session_on
from workbench.trace.structure import Structure, call_model, sample_inputs, structure_of

__all__ = ["Parts", "has_experts", "head_projections", "on_output", "parts_of"]


@dataclass(frozen=True)
class Parts:
    """Names of modules by stack, in the order in which they run first; a shared module stands once."""

    blocks: Mapping[Stack, tuple[str, ...]]
    mlp_projections: Mapping[Stack, tuple[str, ...]]  # the last linear layer of each feed-forward part
    projections: Mapping[int, str]  # id of an attention module -> its output projection
    # Each writes what a part adds to the residual stream: its projection, or the norm behind that. Empty where one is
    # not found. A constant that a model multiplies the sum's terms with (Granite, ReZero) is not part of it.
    mlp_outputs: Mapping[Stack, tuple[str, ...]]
    attention_outputs: Mapping[Stack, tuple[str, ...]]


_known: WeakKeyDictionary[nn.Module, Parts] = WeakKeyDictionary()


def parts_of(model: Any) -> Parts:
    """The parts of a transformers model (examined once)."""
    if model not in _known:
        _known[model] = _examine(model, structure_of(model))
    return _known[model]


@dataclass(frozen=True)
class _Event:
    """What ran: an attention module, a linear layer, another module without children, or the end of a block."""

    kind: str
    module: nn.Module
    given: Tensor | None = None  # copies, since a model may go on with the memory
    output: Tensor | None = None


@dataclass
class _Order(Watcher):
    """Events in the order in which they happened, and the ids of blocks that are steps of a recurrence."""

    events: list[_Event] = field(default_factory=list)
    steps: set[int] = field(default_factory=set)

    def on_weights(self, call: AttentionCall) -> Tensor:
        """Look at the weights."""
        if call.module is not None:
            self.events.append(_Event("attention", call.module))
        return call.weights

    def hook(self, kind: str) -> Callable[..., None]:
        """A forward hook that notes its module, and what it reads and gives unless it is a block."""

        def note(module: nn.Module, arguments: tuple[object, ...], output: object) -> None:
            given = arguments[0] if arguments and kind == "other" else None
            kept = None if kind == "block" else output
            if kind == "block" and _is_step(output):
                self.steps.add(id(module))
            self.events.append(_Event(kind, module, _copy(given), _copy(kept)))

        return note


def _is_step(output: object) -> bool:
    """Whether a block gives one state for the one text that it was run on, (1, D), and not one for each token."""
    first = output[0] if isinstance(output, tuple) else output
    return isinstance(first, Tensor) and first.ndim == 2 and len(first) == 1


def _copy(value: object) -> Tensor | None:
    return value.detach().clone() if isinstance(value, Tensor) else None


def _examine(model: Any, structure: Structure) -> Parts:
    order = _Order()
    names = {id(module): name for name, module in model.named_modules()}
    blocks = {stack: _blocks(structure.root(model, stack), structure) for stack in structure.roots}
    with ExitStack() as stack:
        for module in {id(m): m for found in blocks.values() for m in found}.values():
            stack.callback(module.register_forward_hook(order.hook("block")).remove)
        for module in model.modules():
            if not list(module.children()):
                kind = "linear" if isinstance(module, nn.Linear | Conv1D) else "other"
                stack.callback(module.register_forward_hook(order.hook(kind)).remove)
        stack.enter_context(session_on(model, Session(structure.sites, (order,))))
        call_model(model.base_model, **sample_inputs(model))
    after_attention, before_end = _projections(order.events)
    blocks = {stack: tuple(b for b in found if id(b) not in order.steps) for stack, found in blocks.items()}

    projecting_heads = set(after_attention.values())  # the last of a block without a feed-forward part
    mlps = {
        stack: []
        if any(map(has_experts, found))
        else [
            place
            for b in found
            if (place := before_end.get(id(b))) is not None and place not in projecting_heads
        ]
        for stack, found in blocks.items()
    }
    heads = {
        stack: [after_attention.get(site, -1) for site, where in structure.sites.items() if where is stack]
        for stack in structure.layers
    }

    def projecting(place: int) -> str:
        return names[id(order.events[place].module)]

    def adding(places: list[int]) -> tuple[str, ...]:
        return () if -1 in places else tuple(names[id(_added(order.events, place))] for place in places)

    return Parts(
        {stack: tuple(names[id(block)] for block in found) for stack, found in blocks.items()},
        {stack: tuple(map(projecting, places)) for stack, places in mlps.items()},
        {site: projecting(place) for site, place in after_attention.items()},
        {stack: adding(places) for stack, places in mlps.items()},
        {stack: adding(places) for stack, places in heads.items()},
    )


def _projections(events: list[_Event]) -> tuple[dict[int, int], dict[int, int]]:
    """Places of the first linear layer after each attention module, and of the last before the end of each block."""
    after_attention: dict[int, int] = {}
    before_end: dict[int, int] = {}
    attention: nn.Module | None = None
    linear: int | None = None
    for place, event in enumerate(events):
        if event.kind == "attention":
            attention = event.module
        elif event.kind == "linear":
            linear = place
            if attention is not None:
                after_attention[id(attention)] = place
                attention = None
        elif event.kind == "block" and linear is not None:
            before_end[id(event.module)] = linear
    return after_attention, before_end


def _added(events: list[_Event], place: int) -> nn.Module:
    """The module that gives what a projection adds: a norm that reads the projection's output alone, or itself."""
    module, value = events[place].module, events[place].output
    for event in takewhile(lambda event: event.kind == "other", events[place + 1 :]):
        given, output = event.given, event.output
        if value is None or given is None or output is None:
            continue
        if given.shape == output.shape == value.shape and torch.equal(given, value):
            if not torch.equal(output, value):  # dropout changes nothing
                module = event.module
            value = output
    return module


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
    matrices = [matrix_of(model.get_submodule(name)) for name in found if name is not None]
    return matrices * (structure.layers[stack] // len(matrices))  # one shared module runs as every layer


def matrix_of(module: nn.Module) -> Float[Tensor, "F D"]:
    """The matrix of a linear module, input by output: row i is what its input i writes."""
    with weights_in_memory(module):
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
