"""Models that accelerate has spread over devices, the CPU's memory and the disk (``device_map``, ``cpu_offload``).

Offloaded weights lie on torch's device "meta", which holds no values, but for the time in which their module runs. Who
wants the weights themselves, and not what the module gives, reads them inside :func:`weights_in_memory`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from workbench.errors import ModelError

__all__ = [
    "in_memory",
    "input_device",
    "is_offloaded",
    "parameter_count",
    "stack_layers",
    "value_of",
    "weights_in_memory",
]


def input_device(model: nn.Module) -> torch.device:
    """Where a model takes its inputs: the device on which the first module that has weights runs."""
    for module in model.modules():
        weight = next(module.parameters(recurse=False), None)
        if weight is not None:
            runs_on = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
            return weight.device if runs_on is None else torch.device(runs_on)
    return torch.device("cpu")


def is_offloaded(model: nn.Module) -> bool:
    """Whether weights of ``model`` are in memory only while their module runs."""
    return any(weight.is_meta for weight in model.parameters())


def parameter_count(model: nn.Module) -> int:
    """Number of weights, shared ones counted once; of an offloaded model, where each place has a tensor of its own, by
    the names that transformers ties.
    """
    tied = getattr(model, "all_tied_weights_keys", {}) if is_offloaded(model) else {}
    return sum(weight.numel() for name, weight in model.named_parameters() if name not in tied)


@contextmanager
def weights_in_memory(module: nn.Module) -> Iterator[None]:
    """While open, the weights of ``module`` itself, not of modules inside it, hold their values."""
    hook = getattr(module, "_hf_hook", None)
    if hook is None or not any(weight.is_meta for weight in module.parameters(recurse=False)):
        yield
        return
    hook.pre_forward(module)
    try:
        yield
    finally:
        hook.post_forward(module, None)


def value_of(model: nn.Module, name: str, tensor: Tensor) -> Tensor:
    """``tensor``, which ``model.state_dict()`` has under ``name``, or what accelerate keeps for it.

    Raises :class:`~workbench.errors.ModelError` for a weight that has no values anywhere.
    """
    if not tensor.is_meta:
        return tensor
    owner, _, own = name.rpartition(".")
    module = model.get_submodule(owner)
    with weights_in_memory(module):
        found: Tensor = getattr(module, own)
    if found.is_meta:
        raise ModelError(f"{type(model).__name__} has no values for {name}; load its weights first")
    return found


def in_memory(model: nn.Module, what: str) -> None:
    """Raise :class:`~workbench.errors.ModelError` for an offloaded model: ``what`` changes or copies weights."""
    if is_offloaded(model):
        raise ModelError(
            f"{what} needs all weights in memory, and accelerate has offloaded some of {type(model).__name__}; "
            "load the model without offloading"
        )


def stack_layers(layers: Sequence[Tensor], join: Any = torch.stack) -> Tensor:
    """Tensors of several layers as one (layer, ...), on the first one's device: layers may run on different ones.

    The last axis is as long as the widest layer's: narrower ones (token vectors before a recurrent layer) end in zeros.
    """
    widest = max(layer.shape[-1] for layer in layers)
    same = [nn.functional.pad(layer, (0, widest - layer.shape[-1])) for layer in layers]
    found: Tensor = join([layer.to(layers[0].device) for layer in same])
    return found
