"""Run a model on a batch and get one tensor a layer of the site that was asked for; the pass ends after the last layer.

Capturing and probing both read models here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import local
from typing import Any

import torch
from torch import Tensor, nn

from workbench.errors import TraceError
from workbench.models import LoadedModel
from workbench.trace.attention_hook import Stack
from workbench.trace.interventions import Site
from workbench.trace.parts import on_output, parts_of
from workbench.trace.structure import evaluating, structure_of, without_cache

__all__ = ["Run", "capturing"]

Run = Callable[[dict[str, Tensor]], list[Tensor]]


@contextmanager
def capturing(model: LoadedModel, site: Site | None, stack: Stack, layers: Sequence[int]) -> Iterator[Run]:
    """A function from model inputs to the site's (B, T, width) at each of ``layers``; hooks end with the block.

    ``head_output`` has the heads side by side in its width. With ``None`` as the site it is the model's hidden states,
    which begin with the embeddings and end with what the head reads (after a final norm); the whole pass runs then.

    Raises :class:`TraceError` where the architecture does not show the site.
    """
    module = _reader(model, stack)
    seen = _Seen(layers)
    with ExitStack() as opened:
        opened.enter_context(evaluating(model.model))
        if site is not None:
            _watch(model, site, stack, seen, opened)

        def run(inputs: dict[str, Tensor]) -> list[Tensor]:
            with torch.inference_mode(), suppress(_Enough), seen.one_pass():
                output = module(**inputs, **without_cache(module), output_hidden_states=site is None)
            if site is None:
                hidden = _hidden(output, stack, model)
                return [hidden[layer] for layer in layers]
            rows = inputs["input_ids"].shape[0]
            return [_by_row(seen.layer(n, site, model), rows, model) for n in layers]

        yield run


def _by_row(tensor: Tensor, rows: int, model: LoadedModel) -> Tensor:
    """(B, T, width) or (B * T, width) as (B, T, width); XLNet, which has the tokens first, is refused."""
    if tensor.ndim == 3 and tensor.shape[0] != rows:
        raise TraceError(f"the layers of {type(model.model).__name__} do not hand on one row a text")
    return tensor.reshape(rows, -1, tensor.shape[-1])


class _Enough(Exception):
    """Ends a pass."""


class _Seen(local):
    """What the hooks saw in this thread's pass: batches may run side by side."""

    def __init__(self, layers: Sequence[int]) -> None:
        self._wanted = frozenset(layers)
        self._next: int | None = None  # the layer that comes; none outside a pass that was asked for
        self.kept: dict[int, Tensor] = {}

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """See the pass in this block, from layer 0 on."""
        self._next, self.kept = 0, {}
        try:
            yield
        finally:
            self._next = None

    def see(self, tensor: Tensor) -> None:
        """Keep a copy, since the model may go on with the memory, if the layer is wanted."""
        if self._next is None:
            return
        if self._next in self._wanted:
            self.kept[self._next] = tensor.detach().clone()
        self._next += 1

    def end_of_block(self, *unused: Any) -> None:
        """End the pass if no layer is missing."""
        if self._next is not None and self._next > max(self._wanted):
            raise _Enough

    def layer(self, number: int, site: Site, model: LoadedModel) -> Tensor:
        """What was kept of a layer."""
        if number not in self.kept:
            raise TraceError(
                f"no {site} of layer {number} was seen in a pass of {type(model.model).__name__}"
            )
        return self.kept[number]


def _watch(model: LoadedModel, site: Site, stack: Stack, seen: _Seen, opened: ExitStack) -> None:
    """Hook the modules that write the site, and behind them the blocks, after which a pass can end."""
    for name in _modules(model, site, stack):
        watched = model.model.get_submodule(name)
        if site is Site.HEAD_OUTPUT:
            opened.callback(watched.register_forward_pre_hook(lambda _, given: seen.see(given[0])).remove)
        else:
            opened.enter_context(on_output(watched, seen.see))
    for name in dict.fromkeys(_blocks(model, stack)):
        block: nn.Module = model.model.get_submodule(name)
        opened.callback(block.register_forward_hook(seen.end_of_block).remove)


def _blocks(model: LoadedModel, stack: Stack) -> tuple[str, ...]:
    """Names of the blocks that run a stack; a decoder's run its attention to the source too."""
    return parts_of(model.model).blocks.get(Stack.DECODER if stack is Stack.CROSS else stack, ())


def _reader(model: LoadedModel, stack: Stack) -> Any:
    """What to call: an encoder of an encoder-decoder alone, its whole for the decoder, else the base model."""
    if not model.config.is_encoder_decoder:
        return model.model.base_model
    return structure_of(model.model).root(model.model, stack) if stack is Stack.ENCODER else model.model


def _hidden(output: Any, stack: Stack, model: LoadedModel) -> tuple[Tensor, ...]:
    decoder = model.config.is_encoder_decoder and stack is Stack.DECODER
    found = output.decoder_hidden_states if decoder else output.hidden_states
    if not found:
        raise TraceError(f"{type(model.model).__name__} returns no hidden states, so it cannot be probed")
    return tuple(found)


def _modules(model: LoadedModel, site: Site, stack: Stack) -> list[str]:
    """Names of the modules whose outputs (inputs, for heads) are the site, each once, in layer order."""
    parts, structure = parts_of(model.model), structure_of(model.model)
    heads = [parts.projections.get(number) for number, where in structure.sites.items() if where is stack]
    added = {
        Site.MLP: parts.mlp_outputs.get(stack, ()),
        Site.ATTENTION_OUT: parts.attention_outputs.get(stack, ()),
        Site.RESIDUAL: parts.blocks.get(stack, ()),
    }
    found = [name for name in dict.fromkeys(added.get(site, heads)) if name is not None]
    if not found:
        raise TraceError(
            f"no {site} was found in the {stack} of {type(model.model).__name__}; its hidden states can be recorded"
        )
    return found
