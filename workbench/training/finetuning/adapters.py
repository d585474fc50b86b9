"""Bottleneck adapters beside the feed-forward layers, in the form that becomes part of them when training is over.

An adapter that reads what a feed-forward layer reads, with that layer's own activation, is the same as more inner
units: He et al. 2022, "Towards a Unified View of Parameter-Efficient Transfer Learning", "parallel adapter", here with
the layer's activation for ReLU and no factor before the sum. So after training the model is one of its own architecture
with a larger inner width, which plain transformers opens. New output weights start at zero: at first nothing changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D

from workbench.errors import ConfigError
from workbench.models.configuration import TransformerConfig
from workbench.models.pooled import PooledConfig

__all__ = ["WidenedInput", "WidenedOutput", "add_adapters", "merge_adapters"]

_WIDTH_NAMES = ("intermediate_size", "d_ff", "n_inner", "hidden_dim", "encoder_ffn_dim", "ffn_dim")


class WidenedInput(nn.Module):
    """A frozen layer D to F, and trained rows for ``size`` more inner units: (…, D) to (…, F + size)."""

    def __init__(self, frozen: nn.Module, size: int) -> None:
        super().__init__()
        self.frozen = frozen
        self.down = nn.Linear(_shape(frozen)[0], size, bias=getattr(frozen, "bias", None) is not None)
        nn.init.normal_(self.down.weight, std=0.02)
        if self.down.bias is not None:
            nn.init.zeros_(self.down.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Old and new inner units side by side."""
        return torch.cat((self.frozen(hidden), self.down(hidden)), dim=-1)

    def merged(self) -> nn.Module:
        """One plain layer."""
        weight, bias = _weight_and_bias(self.frozen)
        new = torch.cat((weight, self.down.weight.detach()), dim=0)
        return _layer(
            self.frozen, new, None if bias is None else torch.cat((bias, self.down.bias.detach()), dim=0)
        )


class WidenedOutput(nn.Module):
    """A frozen layer F to D, and trained columns for ``size`` more inner units, zero at first."""

    def __init__(self, frozen: nn.Module, size: int) -> None:
        super().__init__()
        self.frozen = frozen
        self.size = size
        self.up = nn.Parameter(torch.zeros(_shape(frozen)[1], size))

    def forward(self, inner: Tensor) -> Tensor:
        """(…, F + size) to (…, D)."""
        return self.frozen(inner[..., : -self.size]) + F.linear(inner[..., -self.size :], self.up)

    def merged(self) -> nn.Module:
        """One plain layer."""
        weight, bias = _weight_and_bias(self.frozen)
        return _layer(self.frozen, torch.cat((weight, self.up.detach()), dim=1), bias)


def add_adapters(model: nn.Module, size: int) -> int:
    """Freeze the body of ``model`` and put adapters of ``size`` units beside every feed-forward layer.

    Returns how many feed-forward layers got one. Raises :class:`~workbench.errors.ConfigError` where they cannot be
    recognized by the inner width that the configuration gives.
    """
    inner, width = _inner_width(model)
    for parameter in _body(model).parameters():
        parameter.requires_grad_(False)
    found = [(name, m) for name, m in _body(model).named_modules() if isinstance(m, nn.Linear | Conv1D)]
    ins = [(name, m) for name, m in found if _shape(m) == (width, inner)]
    outs = [(name, m) for name, m in found if _shape(m) == (inner, width)]
    if not outs or inner == width:
        raise ConfigError(
            f"adapters cannot tell the feed-forward layers of {type(model).__name__}; use --method lora"
        )
    for wrap, layers in ((WidenedInput, ins), (WidenedOutput, outs)):
        for name, layer in layers:
            _replace(_body(model), name, wrap(layer, size).to(layer.weight.device))
    return len(outs)


def merge_adapters(model: nn.Module) -> None:
    """Make every adapter part of its layer, and tell the configuration the new inner width."""
    body = _body(model)
    for name, module in list(body.named_modules()):
        if isinstance(module, WidenedInput | WidenedOutput):
            _replace(body, name, module.merged())
            size = module.size if isinstance(module, WidenedOutput) else module.down.out_features
    config = _config(model)
    if isinstance(config, TransformerConfig):
        config.feed_forward = replace(config.feed_forward, size=config.feed_forward.size + size)
        return
    inner = _inner_width(model)[0]
    setattr(config, _width_name(config) or "n_inner", inner + size)


def _body(model: Any) -> nn.Module:
    body: nn.Module = model.base_model
    return body


def _config(model: Any) -> Any:
    """Of the body, where a head with a configuration of its own stands around it."""
    return model.config.text_config if isinstance(model.config, PooledConfig) else model.config


def _inner_width(model: Any) -> tuple[int, int]:
    config = _config(model)
    if isinstance(config, TransformerConfig):
        return config.feed_forward.size, config.hidden_size
    name = _width_name(config)
    width = int(config.hidden_size)
    return (int(getattr(config, name)) if name else 4 * width), width


def _width_name(config: Any) -> str | None:
    return next((name for name in _WIDTH_NAMES if getattr(config, name, None) is not None), None)


def _shape(layer: nn.Module) -> tuple[int, int]:
    """Inputs and outputs."""
    if isinstance(layer, Conv1D):
        inputs, outputs = layer.weight.shape
        return int(inputs), int(outputs)
    assert isinstance(layer, nn.Linear)
    return layer.in_features, layer.out_features


def _weight_and_bias(layer: nn.Module) -> tuple[Tensor, Tensor | None]:
    weight, bias = layer.weight.detach(), layer.bias  # type: ignore[operator]
    weight = weight.T if isinstance(layer, Conv1D) else weight
    return weight, None if bias is None else bias.detach()  # type: ignore[operator]


def _layer(like: nn.Module, weight: Tensor, bias: Tensor | None) -> nn.Module:
    """A layer of the kind of ``like`` with ``weight`` (outputs, inputs)."""
    outputs, inputs = weight.shape
    layer: Any = (
        Conv1D(outputs, inputs)
        if isinstance(like, Conv1D)
        else nn.Linear(inputs, outputs, bias=bias is not None)
    )
    layer.weight = nn.Parameter((weight.T if isinstance(like, Conv1D) else weight).clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.clone())
    return layer


def _replace(root: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(root.get_submodule(parent), last, module)
