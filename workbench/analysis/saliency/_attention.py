"""Attention as an explanation: as it is, rolled out, times its gradient, and by zeroing values."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.analysis.attention import attention_rollout
from workbench.analysis.saliency._methods import METHODS, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency._reading import first_reads, reading_weights, sizes, watch
from workbench.analysis.saliency.embedding_model import EmbeddingModel
from workbench.errors import TraceError
from workbench.trace import Edit, Site, Stack, intervene, structure_of

__all__: list[str] = []

UNMOVED = 1e-12  # summed cosine distance, in double precision: nothing but rounding


def _attention(seam: EmbeddingModel, options: SaliencyOptions) -> Raw:
    """Weights of one layer (the last by default), averaged over heads, where the target is read."""
    seam = first_reads(seam)
    stack, layers = _layers(seam)
    layer = layers - 1 if options.layer is None else options.layer
    if not 0 <= layer < layers:
        raise TraceError(f"layer {layer} is out of range: the {stack} has layers 0 to {layers - 1}")
    scores = torch.zeros(seam.explained.shape, dtype=torch.float64)
    for row in range(len(seam)):
        _, watched = watch(seam, [row], gradients=False)
        read, text = sizes(seam, row)
        weights = watched.weights[stack][layer][0].double().cpu()  # (H, Q, K)
        scores[row, :text] = reading_weights(seam, row) @ weights.mean(0)[:read, :text]
    return Raw(scores, (None,) * len(seam), layer)


def _layers(seam: EmbeddingModel) -> tuple[Stack, int]:
    """The attention that looks at the text: of an encoder-decoder, that from decoder to encoder."""
    structure = structure_of(seam.model.model)
    stack = Stack.CROSS if seam.model.config.is_encoder_decoder else structure.main
    return stack, structure.layers[stack]


def _rollout(seam: EmbeddingModel, options: SaliencyOptions) -> Raw:
    seam = first_reads(seam)
    scores = torch.zeros(seam.explained.shape, dtype=torch.float64)
    for row in range(len(seam)):
        _, watched = watch(seam, [row], gradients=False)
        read, text = sizes(seam, row)
        stack, size = _self_attention(seam, read, text)
        layers = torch.stack([w[0, :, :size, :size] for w in watched.weights[stack]])
        rolled = torch.as_tensor(attention_rollout(layers.float().cpu().numpy()).values[-1]).double()
        scores[row, :text] = _reached(seam, row, rolled)
    return Raw(scores, (None,) * len(seam))


def _self_attention(seam: EmbeddingModel, read: int, text: int) -> tuple[Stack, int]:
    """The stack that mixes the text's tokens, and how many tokens it reads."""
    if seam.model.config.is_encoder_decoder:
        return Stack.ENCODER, text
    return structure_of(seam.model.model).main, read


def _reached(seam: EmbeddingModel, row: int, mixed: Tensor) -> Tensor:
    """How much of each text token is in what the head reads, given what is in each position: (T,)."""
    read, text = sizes(seam, row)
    weights = reading_weights(seam, row)
    if seam.model.config.is_encoder_decoder:
        _, watched = watch(seam, [row], gradients=False)
        cross = watched.weights[Stack.CROSS][-1][0].double().cpu().mean(0)
        weights = weights @ cross[:read, :text]
    return (weights @ mixed)[:text]


def _attention_gradient(seam: EmbeddingModel, options: SaliencyOptions) -> Raw:
    """Attention times gradient in the token's columns, over all layers, heads and queries."""
    stack, _ = _layers(seam)
    scores = torch.zeros(seam.explained.shape, dtype=torch.float64)
    for row in range(len(seam)):
        value, watched = watch(seam, [row], gradients=True)
        layers = watched.weights[stack]
        gradients = torch.autograd.grad(value.sum(), layers, allow_unused=True)
        for weights, gradient in zip(layers, gradients, strict=True):
            if gradient is not None:
                columns = (weights * gradient).double().sum((0, 1, 2)).detach().cpu()
                scores[row, : seam.lengths[row]] += columns[: seam.lengths[row]]
    return Raw(scores, (None,) * len(seam))


def _value_zeroing(seam: EmbeddingModel, options: SaliencyOptions) -> Raw:
    seam = first_reads(seam)
    scores = torch.zeros(seam.explained.shape, dtype=torch.float64)
    for row in range(len(seam)):
        read, text = sizes(seam, row)
        stack, size = _self_attention(seam, read, text)
        mixed = torch.eye(size, dtype=torch.float64)
        for layer in range(structure_of(seam.model.model).layers[stack]):
            changes = _changes(seam, row, stack, layer, size, options)
            # a position that no token's value moves keeps what it has
            still = changes.sum(1) < UNMOVED
            changes[still] = torch.eye(size, dtype=changes.dtype)[still]
            mixed = changes / changes.sum(1, keepdim=True) @ mixed
        scores[row, :text] = _reached(seam, row, mixed)
    return Raw(scores, (None,) * len(seam))


def _changes(
    seam: EmbeddingModel, row: int, stack: Stack, layer: int, size: int, options: SaliencyOptions
) -> Tensor:
    """Cosine distance by which each position's output of ``layer`` moves without each token's value: (Q, K).

    The softmax is left as it is, so a value of zero is a column of weights set to zero.
    """
    outputs: list[Tensor] = []

    def keep(values: Tensor) -> Tensor:
        outputs.append(values[:, :size].double())
        return values

    columns: list[int] = []

    def without_values(weights: Tensor) -> Tensor:  # (N, H, Q, K); row 0 stays whole
        kept = torch.ones(
            len(columns) + 1, 1, 1, weights.shape[-1], dtype=weights.dtype, device=weights.device
        )
        for place, column in enumerate(columns, start=1):
            kept[place, ..., column] = 0
        return weights * kept

    edits = (
        Edit(Site.ATTENTION, layer, without_values, stack=stack),
        Edit(Site.RESIDUAL, layer, keep, stack=stack),
    )
    moved = torch.zeros(size, size, dtype=torch.float64)
    count = max(1, options.batch_tokens // size - 1)
    with intervene(seam.model, *edits):
        for start in range(0, size, count):
            columns[:] = range(start, min(size, start + count))
            copies = [row] * (len(columns) + 1)
            outputs.clear()
            seam.values(seam.embeddings[copies, : seam.lengths[row]], torch.tensor(copies))
            likeness = torch.cosine_similarity(outputs[0][1:], outputs[0][:1], dim=-1)  # (N, Q)
            moved[:, columns] = (1 - likeness.cpu()).clamp(min=0).T
    return moved


def _register(
    name: str,
    compute: Callable[[EmbeddingModel, SaliencyOptions], Raw],
    convention: str,
    source: str,
    passes: Callable[[int, SaliencyOptions], int],
    signed: bool = False,
) -> None:
    METHODS.register(
        name,
        SaliencyMethod(
            name=name,
            compute=compute,
            convention=convention,
            source=source,
            passes=passes,
            signed=signed,
            unused_is_zero=False,
            inside=True,
        ),
    )


_register(
    "attention",
    _attention,
    "attention of the last layer, mean of heads, from where the target is read: no sign",
    "Bahdanau et al. 2015; doubted by Jain & Wallace 2019",
    lambda tokens, options: 4,
)
_register(
    "attention_rollout",
    _rollout,
    "share of the token in what the target is read from, if attention alone mixed tokens: no sign",
    "Abnar & Zuidema 2020, equation 1",
    lambda tokens, options: 4,
)
_register(
    "attention_gradient",
    _attention_gradient,
    "attention to the token times its gradient, summed over layers and heads: positive speaks for the target",
    "Serrano & Smith 2019, section 4; Barkan et al. 2021",
    lambda tokens, options: 3,
    signed=True,
)
_register(
    "value_zeroing",
    _value_zeroing,
    "share of the token in what the target is read from, by the change without its value: no sign",
    "Mohebbi et al. 2023, section 3, with rollout",
    lambda tokens, options: 12 * tokens,
)
