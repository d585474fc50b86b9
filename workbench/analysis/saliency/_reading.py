"""From which positions of the last layer a prediction is read, and what attention does on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from workbench.analysis.saliency.attribution_target import AttributionTarget
from workbench.analysis.saliency.embedding_model import EmbeddingModel
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


def first_reads(seam: EmbeddingModel) -> EmbeddingModel:
    """The same questions without a contrast that is read in a pass of its own."""
    questions = [
        replace(q, reads=q.reads[:1], parts=tuple(part for part in q.parts if part.read == 0))
        for q in seam.questions
    ]
    return seam.asking(questions)


def sizes(seam: EmbeddingModel, row: int) -> tuple[int, int]:
    """Tokens that a question's main stack reads in its first pass, and those of its text."""
    read = seam.questions[row].reads[0]
    text = seam.lengths[row]
    return (text + len(read.suffix) if read.decoder is None else len(read.decoder)), text


class Watched(AttentionObserver):
    """Attention weights (R, H, Q, K) of all layers by stack, still part of the graph where one is built."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: dict[Stack, list[Tensor]] = {}

    def observe(self, call: AttentionCall) -> None:
        """Keep the weights."""
        self.weights.setdefault(call.stack, []).append(call.weights)


def watch(seam: EmbeddingModel, rows: Sequence[int], gradients: bool) -> tuple[Tensor, Watched]:
    """Scores of questions (N,) and all attention of that pass."""
    width = max(seam.lengths[row] for row in rows)
    embeddings = seam.embeddings[list(rows), :width].detach()
    watched = Watched()
    with observe_attention(seam.model, watched), torch.set_grad_enabled(gradients):
        values = seam.score(embeddings.requires_grad_(gradients), torch.tensor(list(rows)))
    return values, watched


def reading_weights(seam: EmbeddingModel, row: int) -> Tensor:
    """Shares (T,) of the positions of the main stack's output that the head reads for the target; they sum to 1.

    A language model reads one position for each token that it predicts. Of a classifier that is found out:
    shares are the lengths of the target's gradient with respect to the last layer's output.
    """
    question = seam.questions[row]
    length = sizes(seam, row)[0]
    shares = torch.zeros(length, dtype=torch.float64)
    for position in _positions(question):
        shares[position] += 1
    if not bool(shares.any()):
        shares = _gradient_lengths(seam, row)[:length]
    return shares / shares.sum().clamp(min=1e-30)


def _positions(question: AttributionTarget) -> list[int]:
    terms = [term for part in question.parts if part.weight > 0 for term in part.terms]
    places = [term.index if term.field != "logits" else term.position for term in terms]
    return [place for place in places if place is not None]


def _gradient_lengths(seam: EmbeddingModel, row: int) -> Tensor:
    kept: list[Tensor] = []

    def keep(values: Tensor) -> Tensor:
        kept.append(values)
        return values

    structure = structure_of(seam.model.model)
    last = structure.layers[structure.main] - 1
    length = seam.lengths[row]
    with intervene(seam.model, Edit(Site.RESIDUAL, last, keep)), torch.enable_grad():
        embeddings = seam.embeddings[row : row + 1, :length].detach().requires_grad_()
        value = seam.score(embeddings, torch.tensor([row]))
        (gradient,) = torch.autograd.grad(value.sum(), kept[-1:])
    return gradient[0].double().norm(dim=-1).cpu()
