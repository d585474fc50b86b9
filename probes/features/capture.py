"""Run a model on a batch and get one tensor (B, T, D) for each layer, of the site that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import local
from typing import Any

import torch
from torch import Tensor

from probes.features.policy import SITES, parse_site
from workbench.errors import TraceError
from workbench.models import LoadedModel
from workbench.trace import Stack, structure_of
from workbench.trace.parts import on_output, parts_of
from workbench.trace.structure import evaluating, without_cache

__all__ = ["SITES", "Run", "capturing"]

Run = Callable[[dict[str, Tensor]], list[Tensor]]


@contextmanager
def capturing(model: LoadedModel, what: str, stack: Stack) -> Iterator[Run]:
    """A function from model inputs to the site's tensor at every layer, in layer order; hooks end with the block.

    The residual stream begins with the embeddings and ends with what the head reads (after a final norm).
    """
    site, layer, head = parse_site(what)
    module = _reader(model, stack)
    with ExitStack() as opened:
        opened.enter_context(evaluating(model.model))
        seen = _Seen()
        if site != "residual":
            for name in _modules(model, site, stack):
                watched = model.model.get_submodule(name)
                if site == "head":
                    handle = watched.register_forward_pre_hook(
                        lambda _, inputs: seen.tensors.append(inputs[0])
                    )
                    opened.callback(handle.remove)
                else:
                    opened.enter_context(on_output(watched, lambda tensor: seen.tensors.append(tensor)))

        def run(inputs: dict[str, Tensor]) -> list[Tensor]:
            seen.tensors = []
            with torch.inference_mode():
                output = module(**inputs, **without_cache(module), output_hidden_states=site == "residual")
            if site == "residual":
                return list(_hidden(output, stack, model))
            rows = inputs["input_ids"].shape[0]
            found = [tensor.reshape(rows, -1, tensor.shape[-1]) for tensor in seen.tensors]
            return found if site != "head" else [_head(found[layer or 0], head or 0, model, stack)]

        yield run


class _Seen(local):
    """What the hooks saw in this thread's pass: batches may run side by side."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []


def _reader(model: LoadedModel, stack: Stack) -> Any:
    """What to call: an encoder of an encoder-decoder alone, its whole for the decoder, else the base model."""
    if not model.config.is_encoder_decoder:
        return model.model.base_model
    return model.model if stack is Stack.DECODER else structure_of(model.model).root(model.model, stack)


def _hidden(output: Any, stack: Stack, model: LoadedModel) -> tuple[Tensor, ...]:
    decoder = model.config.is_encoder_decoder and stack is Stack.DECODER
    found = output.decoder_hidden_states if decoder else output.hidden_states
    if not found:
        raise TraceError(f"{type(model.model).__name__} returns no hidden states, so it cannot be probed")
    return tuple(found)


def _modules(model: LoadedModel, site: str, stack: Stack) -> list[str]:
    """Names of the modules whose outputs (inputs, for heads) are the site, each once, in layer order."""
    parts, structure = parts_of(model.model), structure_of(model.model)
    heads = [parts.projections.get(number) for number, where in structure.sites.items() if where is stack]
    added = {"mlp_out": parts.mlp_outputs, "attention_out": parts.attention_outputs}
    names = added[site].get(stack, ()) if site in added else heads
    found = [name for name in dict.fromkeys(names) if name is not None]
    if not found:
        raise TraceError(
            f"no {site} was found in the {stack} of {type(model.model).__name__}; what='residual' works"
        )
    return found


def _head(inputs: Tensor, head: int, model: LoadedModel, stack: Stack) -> Tensor:
    width = inputs.shape[-1] // structure_of(model.model).heads[stack]
    return inputs[..., head * width : (head + 1) * width]
