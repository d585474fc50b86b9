"""Attention as an explanation: as it is, rolled out, times its gradient, and by zeroing values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from workbench.analysis.attention import attention_rollout
from workbench.analysis.saliency._methods import METHODS, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency.attribution_target import AttributionTarget
from workbench.analysis.saliency.embedding_model import EmbeddingModel
from workbench.errors import TraceError
from workbench.models.dispatched import stack_layers
from workbench.trace import (
    AttentionCall,
    AttentionObserver,
    Edit,
    Site,
    Stack,
    intervene,
    observe_attention,
    structure_of,
)

__all__ = ["Watched", "first_reads", "reading_weights", "sizes", "watch"]


def first_reads(embedded: EmbeddingModel) -> EmbeddingModel:
    """The same questions without a contrast that is read in a pass of its own."""
    questions = [
        replace(q, reads=q.reads[:1], parts=tuple(part for part in q.parts if part.read == 0))
        for q in embedded.questions
    ]
    return embedded.asking(questions)


def sizes(embedded: EmbeddingModel, row: int) -> tuple[int, int]:
    """Tokens that a question's main stack reads in its first pass, and those of its text."""
    read = embedded.questions[row].reads[0]
    text = embedded.lengths[row]
    return (text + len(read.suffix) if read.decoder is None else len(read.decoder)), text


class Watched(AttentionObserver):
    """Attention weights (R, H, Q, K) of all layers by stack, still part of the graph where one is built."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: dict[Stack, list[Tensor]] = {}

    def observe(self, call: AttentionCall) -> None:
        """Keep the weights; gradients are asked for also where no token had a part in them (fixed Synthesizer)."""
        if torch.is_grad_enabled() and not call.weights.requires_grad:
            call.weights.requires_grad_()
        self.weights.setdefault(call.stack, []).append(call.weights)


def watch(embedded: EmbeddingModel, rows: Sequence[int], gradients: bool) -> tuple[Tensor, Watched]:
    """Scores of questions (N,) and all attention of that pass."""
    width = max(embedded.lengths[row] for row in rows)
    embeddings = embedded.embeddings[list(rows), :width].detach()
    watched = Watched()
    with observe_attention(embedded.model, watched), torch.set_grad_enabled(gradients):
        values = embedded.score(embeddings.requires_grad_(gradients), torch.tensor(list(rows)))
    return values, watched


def reading_weights(embedded: EmbeddingModel, row: int) -> Tensor:
    """Shares (T,) of the positions of the main stack's output that the head reads for the target; they sum to 1.

    A language model reads one position for each token that it predicts. Of a classifier that is found out:
    shares are the lengths of the target's gradient with respect to the last layer's output.
    """
    question = embedded.questions[row]
    length = sizes(embedded, row)[0]
    shares = torch.zeros(length, dtype=torch.float64)
    for position in _positions(question):
        shares[position] += 1
    if not bool(shares.any()):
        shares = _gradient_lengths(embedded, row)[:length]
    return shares / shares.sum().clamp(min=1e-30)


def _positions(question: AttributionTarget) -> list[int]:
    terms = [term for part in question.parts if part.weight > 0 for term in part.terms]
    places = [term.index if term.field != "logits" else term.position for term in terms]
    return [place for place in places if place is not None]


def _gradient_lengths(embedded: EmbeddingModel, row: int) -> Tensor:
    kept: list[Tensor] = []

    def keep(values: Tensor) -> Tensor:
        kept.append(values)
        return values

    structure = structure_of(embedded.model.model)
    last = structure.layers[structure.main] - 1
    length = embedded.lengths[row]
    with intervene(embedded.model, Edit(Site.RESIDUAL, last, keep)), torch.enable_grad():
        embeddings = embedded.embeddings[row : row + 1, :length].detach().requires_grad_()
        value = embedded.score(embeddings, torch.tensor([row]))
        (gradient,) = torch.autograd.grad(value.sum(), kept[-1:])
    return gradient[0].double().norm(dim=-1).cpu()


UNMOVED = 1e-12  # summed cosine distance, in double precision: nothing but rounding


def _attention(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    """Weights of one layer (the last by default), averaged over heads, where the target is read."""
    embedded = first_reads(embedded)
    stack, layers = _layers(embedded)
    layer = layers - 1 if options.layer is None else options.layer
    if not 0 <= layer < layers:
        raise TraceError(f"layer {layer} is out of range: the {stack} has layers 0 to {layers - 1}")
    scores = torch.zeros(embedded.attributed.shape, dtype=torch.float64)
    for row in range(len(embedded)):
        _, watched = watch(embedded, [row], gradients=False)
        read, text = sizes(embedded, row)
        weights = watched.weights[stack][layer][0].double().cpu()  # (H, Q, K)
        scores[row, :text] = reading_weights(embedded, row) @ weights.mean(0)[:read, :text]
    return Raw(scores, (None,) * len(embedded), layer)


def _layers(embedded: EmbeddingModel) -> tuple[Stack, int]:
    """The attention that looks at the text: of an encoder-decoder, that from decoder to encoder."""
    structure = structure_of(embedded.model.model)
    stack = Stack.CROSS if embedded.model.config.is_encoder_decoder else structure.main
    return stack, structure.layers[stack]


def _rollout(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    embedded = first_reads(embedded)
    scores = torch.zeros(embedded.attributed.shape, dtype=torch.float64)
    for row in range(len(embedded)):
        _, watched = watch(embedded, [row], gradients=False)
        read, text = sizes(embedded, row)
        stack, size = _self_attention(embedded, read, text)
        layers = stack_layers([w[0, :, :size, :size] for w in watched.weights[stack]])
        rolled = torch.as_tensor(attention_rollout(layers.float().cpu().numpy()).values[-1]).double()
        scores[row, :text] = _reached(embedded, row, rolled)
    return Raw(scores, (None,) * len(embedded))


def _self_attention(embedded: EmbeddingModel, read: int, text: int) -> tuple[Stack, int]:
    """The stack that mixes the text's tokens, and how many tokens it reads."""
    if embedded.model.config.is_encoder_decoder:
        return structure_of(embedded.model.model).attending(Stack.ENCODER), text
    return structure_of(embedded.model.model).main, read


def _reached(embedded: EmbeddingModel, row: int, mixed: Tensor) -> Tensor:
    """How much of each text token is in what the head reads, given what is in each position: (T,)."""
    read, text = sizes(embedded, row)
    weights = reading_weights(embedded, row)
    if embedded.model.config.is_encoder_decoder:
        _, watched = watch(embedded, [row], gradients=False)
        cross = watched.weights[Stack.CROSS][-1][0].double().cpu().mean(0)
        weights = weights @ cross[:read, :text]
    return (weights @ mixed)[:text]


def _attention_gradient(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    """Attention times gradient in the token's columns, over all layers, heads and queries."""
    stack, _ = _layers(embedded)
    scores = torch.zeros(embedded.attributed.shape, dtype=torch.float64)
    for row in range(len(embedded)):
        value, watched = watch(embedded, [row], gradients=True)
        layers = watched.weights[stack]
        gradients = torch.autograd.grad(value.sum(), layers, allow_unused=True)
        for weights, gradient in zip(layers, gradients, strict=True):
            if gradient is not None:
                columns = (weights * gradient).double().sum((0, 1, 2)).detach().cpu()
                scores[row, : embedded.lengths[row]] += columns[: embedded.lengths[row]]
    return Raw(scores, (None,) * len(embedded))


def _value_zeroing(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    embedded = first_reads(embedded)
    scores = torch.zeros(embedded.attributed.shape, dtype=torch.float64)
    for row in range(len(embedded)):
        read, text = sizes(embedded, row)
        stack, size = _self_attention(embedded, read, text)
        mixed = torch.eye(size, dtype=torch.float64)
        for layer in range(structure_of(embedded.model.model).layers[stack]):
            changes = _changes(embedded, row, stack, layer, size, options)
            # a position that no token's value moves keeps what it has
            still = changes.sum(1) < UNMOVED
            changes[still] = torch.eye(size, dtype=changes.dtype)[still]
            mixed = changes / changes.sum(1, keepdim=True) @ mixed
        scores[row, :text] = _reached(embedded, row, mixed)
    return Raw(scores, (None,) * len(embedded))


def _changes(
    embedded: EmbeddingModel, row: int, stack: Stack, layer: int, size: int, options: SaliencyOptions
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
    with intervene(embedded.model, *edits):
        for start in range(0, size, count):
            columns[:] = range(start, min(size, start + count))
            copies = [row] * (len(columns) + 1)
            outputs.clear()
            embedded.values(embedded.embeddings[copies, : embedded.lengths[row]], torch.tensor(copies))
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
    "Serrano & Smith 2019, section 4; Barkan et al. 2021, without their ReLU",
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
