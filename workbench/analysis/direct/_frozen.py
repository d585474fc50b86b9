"""A forward pass whose residual path is linear: norms keep the scale, activations the slope, that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from transformers.pytorch_utils import Conv1D

__all__ = ["Biases", "frozen_path"]

_TOLERANCE = 1e-3  # of the largest entry: how well a norm must be described by scale, gain and bias


@dataclass
class Biases:
    """Constants that enter the path: ``terms[i]`` is multiplied with the gradient at ``places[i]``."""

    places: list[Tensor]
    terms: list[Tensor]


@contextmanager
def frozen_path(model: nn.Module, cut: set[nn.Module]) -> Iterator[Biases]:
    """While open, norms and activations are linear in their input; biases on the way are collected.

    ``cut`` are modules whose outputs are taken as they are, so that their biases are not counted again.
    """
    biases = Biases([], [])
    with ExitStack() as stack:
        stack.enter_context(_FrozenFunctions())
        for module in model.modules():
            if isinstance(module, nn.Linear | Conv1D):
                if module.bias is not None and module not in cut:
                    stack.callback(module.register_forward_hook(_collect(biases)).remove)
            elif not list(module.children()) and not isinstance(module, nn.Embedding):
                stack.callback(module.register_forward_hook(_freeze(biases)).remove)
        yield biases


class _FrozenFunctions(TorchFunctionMode):
    """Activations that are called as functions keep their slope; so do those written with ``erf``."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if func is torch.erf:
            return output.detach()
        if func in _ACTIVATIONS and isinstance(args[0], Tensor) and args[0].requires_grad:
            return args[0] * _slope(args[0].detach(), output.detach())
        return output


_ACTIVATIONS = {F.gelu, F.relu, F.silu, F.elu, F.mish}


def _collect(biases: Biases) -> Callable[..., None]:
    def hook(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            bias = module.bias
            assert isinstance(bias, Tensor)
            biases.places.append(output)
            biases.terms.append(bias.detach())

    return hook


def _freeze(biases: Biases) -> Callable[..., Tensor | None]:
    def hook(module: nn.Module, arguments: tuple[object, ...], output: object) -> Tensor | None:
        given = arguments[0] if len(arguments) == 1 else None
        if not isinstance(given, Tensor) or not isinstance(output, Tensor) or not given.requires_grad:
            return None
        if given.shape != output.shape:
            return None
        norm = _linear_norm(module, given.detach(), output.detach())
        if norm is not None:
            scale, centred, bias = norm
            constant = bias.expand_as(output).clone().requires_grad_()
            biases.places.append(constant)
            biases.terms.append(bias)
            return (given - given.mean(-1, keepdim=True) if centred else given) * scale + constant
        if any(True for _ in module.parameters()):
            return None
        return given * _slope(given.detach(), output.detach())

    return hook


def _linear_norm(
    module: nn.Module, given: Float[Tensor, "B T D"], output: Float[Tensor, "B T D"]
) -> tuple[Float[Tensor, "B T D"], bool, Float[Tensor, " D"]] | None:
    """Scale, whether the mean is subtracted, and bias of a norm at this input, found by asking it; or ``None``.

    A norm maps v to scale · gain * (v or v - mean) + bias. Two opposite vectors tell gain and bias apart, a
    shifted one tells whether the mean matters, and the output tells the scale.
    """
    probe = _zero_mean(given.shape[-1], given)
    with torch.no_grad():
        plus, minus, shifted = (module.forward(v) for v in (probe, -probe, probe + 1))
        bias, gain = (plus + minus) / 2, (plus - minus) / 2 / probe
        centred = bool(torch.allclose(plus, shifted, atol=1e-4))
        direction = (given - given.mean(-1, keepdim=True) if centred else given) * gain
        square = (direction * direction).sum(-1, keepdim=True)
        size = ((output - bias) * direction).sum(-1, keepdim=True) / square.clamp_min(1e-30)
        fitted = size * direction + bias
    if not bool(((fitted - output).abs() <= _TOLERANCE * output.abs().amax().clamp_min(1e-6)).all()):
        return None
    return size * gain, centred, bias


def _zero_mean(width: int, like: Tensor) -> Float[Tensor, " D"]:
    """A vector of mean zero without a zero in it."""
    probe = torch.ones(width, dtype=like.dtype, device=like.device)
    probe[1::2] = -1
    if width % 2:
        probe[-1] = 2
        probe[-3] = -1 if width > 2 else probe[-3]
        probe = probe - probe.mean() if width > 2 else probe
    return probe


def _slope(given: Tensor, output: Tensor) -> Tensor:
    """output / input, elementwise; what passes zero contributes nothing either way."""
    small = given.abs() < 1e-7
    return torch.where(
        small, torch.zeros_like(output), output / torch.where(small, torch.ones_like(given), given)
    )
