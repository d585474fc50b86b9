"""How large and how costly a configuration is, before any memory is allocated."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from workbench.models.auto import AUTO_CLASSES
from workbench.models.built_in import BuiltInConfig
from workbench.models.configuration import TransformerConfig
from workbench.models.encoder import Pooler
from workbench.models.funnel import FunnelStack
from workbench.models.stack import LayerStack
from workbench.models.universal import UniversalStack
from workbench.nn import Block, Experts
from workbench.nn.forms import EfficientAttention, LengthProjection

__all__ = ["flops_per_token", "language_model_class", "num_active_parameters", "num_parameters"]

_LANGUAGE_MODELS = ("AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM")


def language_model_class(config: BuiltInConfig) -> type[PreTrainedModel]:
    """The model that scores tokens, for the shape of ``config``."""
    models = AUTO_CLASSES[type(config)]
    return next(models[auto] for auto in _LANGUAGE_MODELS if auto in models)


def _without_memory(config: BuiltInConfig, model_class: type[PreTrainedModel] | None) -> PreTrainedModel:
    with torch.device("meta"):  # shapes only
        return (model_class or language_model_class(config))(config)


def num_parameters(config: BuiltInConfig, model_class: type[PreTrainedModel] | None = None) -> int:
    """Weights of the language model, or of ``model_class``; shared ones counted once."""
    return sum(parameter.numel() for parameter in _without_memory(config, model_class).parameters())


def num_active_parameters(config: BuiltInConfig, model_class: type[PreTrainedModel] | None = None) -> int:
    """:func:`num_parameters` without the experts that one token does not go through."""
    model = _without_memory(config, model_class)
    total = sum(parameter.numel() for parameter in model.parameters())
    for block in model.modules():
        if isinstance(block, Block) and isinstance(block.feed_forward, Experts):
            assert block.router is not None
            idle = len(block.feed_forward.experts) - block.router.chosen
            total -= idle * sum(weight.numel() for weight in block.feed_forward.experts[0].parameters())
    return total


def flops_per_token(
    config: BuiltInConfig, length: int, model_class: type[PreTrainedModel] | None = None
) -> int:
    """Floating-point operations of a forward pass over ``length`` tokens, per token; training takes three times.

    Multiplications and additions in matrix products: two for each weight used, and four for each width of a head, head
    and visible key, of which other forms of attention say how many they compare. Norms, activations and softmax are
    left out. An encoder-decoder reads and writes ``length`` tokens each; of a mixture of experts the chosen ones
    count. Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1, who leave out the vocabulary's
    layer and count every key, visible or not. Of models that are no transformers: two for each weight of a matrix
    other than embedding tables, which holds where each is used once per token, and what their configuration counts
    for attention.
    """
    model = _without_memory(config, model_class)
    if not isinstance(config, TransformerConfig):
        return 2 * _matrix_weights(model) + config.attention_flops(length)
    total = 0
    for module in model.modules():
        if isinstance(module, LayerStack):
            total += _stack_flops(module, config, length)
    outside = (
        m for name, m in model.named_modules() if isinstance(m, nn.Linear) and ".stack." not in f".{name}"
    )
    pooled = {id(m) for pooler in model.modules() if isinstance(pooler, Pooler) for m in pooler.modules()}
    return total + sum(2 * linear.weight.numel() for linear in outside if id(linear) not in pooled)


def _matrix_weights(model: nn.Module) -> int:
    """Weights of matrices and filters; those of a table only where an output layer shares them."""
    modules = [module for module in model.modules() if not isinstance(module, nn.Embedding)]
    return sum(w.numel() for module in modules for w in module.parameters(recurse=False) if w.dim() > 1)


def _funnel_flops(stack: FunnelStack, config: TransformerConfig, length: int) -> int:
    """Of layers that run at fewer places, as the share of the text that these are."""
    weights, products = float(_weights(stack.embeddings)), 0.0
    layers: Any = stack.layers
    for layer, (queries, keys) in zip(layers, stack.places(length), strict=True):
        of_keys = _weights(layer.attention.key) + _weights(layer.attention.value)
        weights += ((_weights(layer) - of_keys) * queries + of_keys * keys) / length
        products += queries * keys / length
    return round(2 * weights + 4 * config.attention.heads * config.head_dim * products)


def _stack_flops(stack: LayerStack, config: TransformerConfig, length: int) -> int:
    if isinstance(stack, FunnelStack):
        return _funnel_flops(stack, config, length)
    weights, keys = _weights(stack.embeddings), 0.0
    for kind, module in zip(stack.kinds, stack.module_of_layer, strict=True):
        layer = stack.layers[module]
        weights += _weights(layer)
        assert isinstance(layer.attention, nn.Module)
        if isinstance(layer.attention, EfficientAttention):
            keys += layer.attention.mean_keys(length)
        else:
            keys += _mean_keys(length, bool(layer.attention.is_causal), config.attention.window, kind)
        keys += length if layer.cross_attention is not None else 0
        weights += _weights(stack.halting) if isinstance(stack, UniversalStack) and stack.halting else 0
    return 2 * weights + round(4 * config.attention.heads * config.head_dim * keys)


def _weights(module: nn.Module) -> int:
    """Weights of the matrices that one token is multiplied with; of a mixture, those of as many experts as it takes."""
    if isinstance(module, Block) and isinstance(module.feed_forward, Experts):
        parts = [part for part in module.children() if part is not module.feed_forward]
        assert module.router is not None
        return sum(map(_weights, parts)) + module.router.chosen * _weights(module.feed_forward.experts[0])
    linear = (m for m in module.modules() if isinstance(m, nn.Linear) and not isinstance(m, LengthProjection))
    return sum(m.weight.numel() for m in linear)


def _mean_keys(length: int, is_causal: bool, window: int | None, kind: str) -> float:
    """Keys that a query sees, averaged over the queries of a text."""
    reach = window if window is not None and kind == "sliding_attention" else length
    if is_causal:
        return sum(min(query + 1, reach) for query in range(length)) / length
    return sum(min(query, reach) + 1 + min(length - 1 - query, reach) for query in range(length)) / length
