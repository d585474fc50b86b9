"""Watch a model's attention for the length of a ``with`` block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from workbench.models import LoadedModel
from workbench.trace.attention_hook import (
    IMPLEMENTATION,
    AttentionCall,
    Session,
    Stack,
    Watcher,
    active,
    attention_implementation,
    opened,
)
from workbench.trace.structure import Route, Structure, output_attentions, stacks_of, structure_of

__all__ = ["AttentionObserver", "active", "observe_attention", "session_on", "watching"]


class AttentionObserver(Watcher):
    """Sees every attention layer of ``stack`` (``None``: of all) as it is computed, and keeps what it likes of it.

    Override :meth:`observe`, and :meth:`wants` to leave out layers: where nobody wants weights the fused kernel runs.
    """

    def __init__(self, stack: Stack | None = None) -> None:
        self.stack = stack

    def wants(self, stack: Stack, layer: int) -> bool:
        """Every layer of the stack."""
        return self.stack is None or stack is self.stack

    def on_weights(self, call: AttentionCall) -> Tensor:
        """Observe the layer; its weights stay as they are."""
        self.observe(call)
        return call.weights

    def observe(self, call: AttentionCall) -> None:
        """See one layer of one batch. The tensors are the model's own: copy what outlives the call."""
        raise NotImplementedError


@contextmanager
def observe_attention(model: LoadedModel, *observers: AttentionObserver) -> Iterator[Structure]:
    """Hand the attention of every forward pass in this block, in this thread, to ``observers``.

    The model's lock is held throughout. On leaving, by an error too, the model is as it was before.
    Memory is one layer's weights at a time; architectures whose attention can only be had from their
    outputs (:class:`Route.OUTPUTS`) hold all layers of a batch.
    """
    with model.lock, watching(model.model, observers) as structure:
        yield structure


@contextmanager
def watching(model: Any, watchers: Sequence[Watcher]) -> Iterator[Structure]:
    """Open a session of ``watchers`` on a transformers model."""
    structure = structure_of(model)
    with session_on(model, Session(structure.sites, tuple(watchers))):
        yield structure


@contextmanager
def session_on(model: Any, session: Session) -> Iterator[None]:
    """Open ``session`` on a transformers model."""
    structure = stacks_of(model)
    with ExitStack() as stack:
        stack.enter_context(_counting_passes(session, model, structure))
        if structure.route is Route.INTERFACE:
            stack.enter_context(attention_implementation(model, IMPLEMENTATION))
        else:
            stack.enter_context(attention_implementation(model, "eager", output_attentions=True))
            stack.enter_context(_reading_outputs(session, model))
        stack.enter_context(opened(session))
        yield


@contextmanager
def _counting_passes(session: Session, model: Any, structure: Structure) -> Iterator[None]:
    """Start counting layers at 0 whenever a stack begins to run."""

    def start(stacks: tuple[Stack, ...]) -> Callable[..., None]:
        def reset(module: nn.Module, arguments: Any) -> None:
            if session in active():
                session.begin(stacks)

        return reset

    owned = {Stack.ENCODER: (Stack.ENCODER,), Stack.DECODER: (Stack.DECODER, Stack.CROSS)}
    handles = [
        structure.root(model, name).register_forward_pre_hook(start(owned[name])) for name in structure.roots
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _reading_outputs(session: Session, model: Any) -> Iterator[None]:
    """Hand the attentions in the output of a pass to the watchers, which can only look at them."""
    main = stacks_of(model).main

    def read(module: nn.Module, arguments: Any, output: Any) -> None:
        if session not in active():
            return
        for stack, layers in output_attentions(model, output).items():
            for layer, weights in enumerate(layers):
                call = AttentionCall(None, stack or main, layer, weights)
                for watcher in session.watchers:
                    if watcher.wants(call.stack, layer):
                        watcher.on_weights(call)

    handle = model.base_model.register_forward_hook(read)
    try:
        yield
    finally:
        handle.remove()
