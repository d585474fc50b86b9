"""Neurons of the feed-forward parts: where they fire over a corpus, and which tokens they promote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.errors import DataError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.trace import Text, structure_of
from workbench.trace.encoding import Encoded, batches_of, encode_all, inputs_of
from workbench.trace.parts import matrix_of, parts_of
from workbench.trace.structure import call_model

__all__ = ["Firing", "NeuronPromotion", "promoted_tokens", "top_activations"]

_AROUND = 8  # tokens of context on the left of a firing; half as many on the right


@dataclass(frozen=True)
class Firing:
    """One of a neuron's strongest activations: at ``token`` of a text, between the tokens beside it."""

    layer: int
    neuron: int
    activation: float
    text: int
    position: int
    token: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class NeuronPromotion:
    """Tokens whose logits a neuron's output raises most and lowers most, with the change at activation 1."""

    layer: int
    neuron: int
    raised: tuple[tuple[str, float], ...]
    lowered: tuple[tuple[str, float], ...]


def top_activations(
    model: LoadedModel,
    texts: Sequence[Text],
    layer: int,
    neurons: Sequence[int] | None = None,
    *,
    count: int = 10,
    batch_size: int = 8,
    max_length: int | None = None,
) -> list[list[Firing]]:
    """The ``count`` strongest activations of each neuron over ``texts``, strongest first.

    A neuron's activation is what its feed-forward part's last matrix reads (Geva et al. 2021, "Transformer
    Feed-Forward Layers Are Key-Value Memories", section 3). Streaming: memory is one batch and ``count`` values a
    neuron. Of an encoder-decoder, the encoder's.

    Raises :class:`~workbench.errors.TraceError` for a layer or neuron out of range, or a mixture of experts.
    """
    output = _output_layer(model, layer)
    width = matrix_of(output).shape[0]
    chosen = tuple(range(width) if neurons is None else neurons)
    _check_neurons(chosen, width)
    encoded = encode_all(model, texts, max_length)
    best = _Best(len(chosen), count)
    main = structure_of(model.model)
    reads = (
        main.root(model.model, next(iter(main.roots)))
        if model.config.is_encoder_decoder
        else model.model.base_model
    )
    with model.lock, _inputs_of_layer(output) as seen:
        for rows in batches_of(model, encoded, batch_size):
            seen.clear()
            inputs = inputs_of(model, [encoded[i] for i in rows])
            call_model(reads, **inputs)
            found = seen[-1].reshape(*inputs["input_ids"].shape, width)
            for row, index in enumerate(rows):
                length = len(encoded[index].alignment)
                best.add(found[row, :length, list(chosen)].float().cpu(), index)
    return [best.firings(n, layer, neuron, encoded) for n, neuron in enumerate(chosen)]


class _Best:
    """The strongest values of each neuron so far, and where they were."""

    def __init__(self, neurons: int, count: int) -> None:
        if count < 1:
            raise DataError(f"count is {count}; allowed: 1 or more")
        self._count = count
        self._values = torch.full((count, neurons), -torch.inf)
        self._places: Int[Tensor, "rank neuron two"] = torch.full((count, neurons, 2), -1)

    def add(self, values: Float[Tensor, "T N"], text: int) -> None:
        """Take in one text's activations."""
        positions = torch.arange(len(values))[:, None].expand_as(values)
        places = torch.stack([torch.full_like(positions, text), positions], dim=-1)
        both = torch.cat([self._values, values])
        kept = both.topk(self._count, dim=0)
        everywhere = torch.cat([self._places, places])
        self._values = kept.values
        self._places = everywhere.gather(0, kept.indices[..., None].expand(-1, -1, 2))

    def firings(self, column: int, layer: int, neuron: int, encoded: Sequence[Encoded]) -> list[Firing]:
        """What was kept of one neuron."""
        return [
            _firing(layer, neuron, float(value), int(text), int(position), encoded)
            for value, (text, position) in zip(
                self._values[:, column], self._places[:, column].tolist(), strict=True
            )
            if text >= 0
        ]


def _firing(
    layer: int, neuron: int, value: float, text: int, position: int, encoded: Sequence[Encoded]
) -> Firing:
    tokens = encoded[text].alignment.tokens
    before = tokens[max(position - _AROUND, 0) : position]
    after = tokens[position + 1 : position + 1 + _AROUND // 2]
    return Firing(layer, neuron, value, text, position, tokens[position], before, after)


def promoted_tokens(model: LoadedModel, layer: int, neuron: int, count: int = 10) -> NeuronPromotion:
    """Tokens that a neuron's output vector points to in the output vocabulary.

    The product of the vector and the output embedding, as in Geva et al. 2022, "Transformer Feed-Forward Layers
    Build Predictions by Promoting Concepts in the Vocabulary Space", section 3.1: without the final norm, which
    scales them, and without a norm behind the feed-forward part (Gemma 2). For decoders, and the decoders of
    encoder-decoders: a masked-LM head has a layer of its own between.

    Raises :class:`~workbench.errors.ModelError` for another kind of model, :class:`~workbench.errors.TraceError` for a
    layer or neuron out of range.
    """
    model.require(Kind.CAUSAL, Kind.SEQ2SEQ, verb="reading what a neuron promotes")
    structure = structure_of(model.model)
    output = _output_layer(model, layer, structure.main)
    matrix = matrix_of(output)
    _check_neurons((neuron,), len(matrix))
    head = matrix_of(model.model.get_output_embeddings())  # (D, V)
    if len(head) != matrix.shape[1]:
        raise TraceError(
            f"the output layer of {model.name} reads {len(head)} numbers, layers write {matrix.shape[1]}"
        )
    with torch.no_grad():
        scores = (matrix[neuron] @ head).float().cpu()
    best = scores.topk(min(count, len(scores)))
    worst = (-scores).topk(min(count, len(scores)))
    return NeuronPromotion(
        layer, neuron, _spelled(model, best.indices, scores), _spelled(model, worst.indices, scores)
    )


def _spelled(
    model: LoadedModel, ids: Int[Tensor, " k"], scores: Float[Tensor, " V"]
) -> tuple[tuple[str, float], ...]:
    names = model.tokenizer.convert_ids_to_tokens(ids.tolist())
    return tuple((str(name), float(scores[i])) for name, i in zip(names, ids, strict=True))


def _output_layer(model: LoadedModel, layer: int, stack: Any = None) -> nn.Module:
    structure = structure_of(model.model)
    chosen = stack or next(iter(structure.roots))  # an encoder comes before its decoder
    structure.check(chosen, (layer,))
    structure.check_places(chosen, (layer,))
    names = parts_of(model.model).mlp_projections.get(chosen, ())
    if not names:
        raise TraceError(
            f"no feed-forward part with one output layer was found in {type(model.model).__name__}"
        )
    found = model.model.get_submodule(names[layer * len(names) // structure.layers[chosen]])
    assert isinstance(found, nn.Module)
    return found


def _check_neurons(neurons: Sequence[int], width: int) -> None:
    for neuron in neurons:
        if not 0 <= neuron < width:
            raise TraceError(
                f"neuron {neuron} is out of range: a feed-forward part has neurons 0 to {width - 1}"
            )


@contextmanager
def _inputs_of_layer(module: nn.Module) -> Iterator[list[Tensor]]:
    """While open, what the module reads, pass by pass."""
    seen: list[Tensor] = []

    def keep(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.append(arguments[0].detach())

    handle = module.register_forward_pre_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()
