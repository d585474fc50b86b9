"""Gradients at the text itself: saliency, input × gradient, and their averages under noise."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.analysis.saliency._integrated import integrated
from workbench.analysis.saliency._methods import METHODS, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency.embedding_model import EmbeddingModel

__all__ = ["noisy"]

SAMPLES = 25


def gradients_of(embedded: EmbeddingModel, embeddings: Tensor, options: SaliencyOptions) -> Tensor:
    """Gradient of each question's score at ``embeddings`` (B, T, D)."""
    found = torch.zeros_like(embeddings)
    for rows in embedded.chunks(range(len(embedded)), options.batch_tokens):
        width = max(embedded.lengths[row] for row in rows)
        found[rows, :width] = embedded.gradients(embeddings[rows, :width], torch.tensor(rows))[1]
    return found


def _saliency(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    norms = gradients_of(embedded, embedded.embeddings, options).norm(dim=-1)
    return Raw(norms * embedded.attributed, (None,) * len(embedded))


def _input_x_gradient(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    products = (embedded.embeddings * gradients_of(embedded, embedded.embeddings, options)).sum(-1)
    return Raw(products * embedded.attributed, (None,) * len(embedded))


def noisy(embedded: EmbeddingModel, row: int, options: SaliencyOptions) -> Tensor:
    """A text's embeddings (T, D) with noise, (samples, T, D); the draws depend on the seed and the length alone."""
    own = embedded.embeddings[row, : embedded.lengths[row]]
    generator = torch.Generator().manual_seed(options.seed)
    noise = torch.randn(options.samples or SAMPLES, *own.shape, generator=generator).to(own)
    return own + options.noise * own.std() * noise


def _smoothgrad(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    scores = torch.zeros_like(embedded.embeddings[..., 0])
    for row, length in enumerate(embedded.lengths):
        draws = noisy(embedded, row, options)
        total = torch.zeros_like(draws[0])
        for chosen in embedded.chunks([row] * len(draws), options.batch_tokens):
            rows = torch.full((len(chosen),), row)
            total += embedded.gradients(draws[chosen], rows)[1].sum(0)
        scores[row, :length] = (total / len(draws)).norm(dim=-1)
    return Raw(scores * embedded.attributed, (options.samples or SAMPLES,) * len(embedded))


def _smoothgrad_integrated(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    samples = options.samples or SAMPLES
    total = torch.zeros_like(embedded.embeddings[..., 0])
    draws = [noisy(embedded, row, options) for row in range(len(embedded))]
    for sample in range(samples):
        moved = embedded.embeddings.clone()
        for row, length in enumerate(embedded.lengths):
            moved[row, :length] = draws[row][sample]
        moved = torch.where(embedded.attributed[..., None], moved, embedded.embeddings)
        total += integrated(embedded, moved, options).scores
    return Raw(total / samples, (samples,) * len(embedded))


def _passes(factor: int) -> Callable[[int, SaliencyOptions], int]:
    return lambda tokens, options: factor * (options.samples or SAMPLES)


METHODS.register(
    "saliency",
    SaliencyMethod(
        name="saliency",
        compute=_saliency,
        convention="length of the gradient with respect to the token's embedding: no sign",
        source="after Simonyan et al. 2014, section 3, and Li et al. 2016, section 5, who look at single entries",
        passes=lambda tokens, options: 3,
        signed=False,
    ),
)


METHODS.register(
    "input_x_gradient",
    SaliencyMethod(
        name="input_x_gradient",
        compute=_input_x_gradient,
        convention="embedding times gradient: positive speaks for the target",
        source="Denil et al. 2014; Shrikumar et al. 2017, section 2",
        passes=lambda tokens, options: 3,
    ),
)


METHODS.register(
    "smoothgrad",
    SaliencyMethod(
        name="smoothgrad",
        compute=_smoothgrad,
        convention="length of the mean gradient over noisy copies of the embeddings: no sign",
        source="Smilkov et al. 2017, section 3, whose noise is a share of the range, not of the spread",
        passes=_passes(3),
        signed=False,
        seeded=True,
    ),
)


METHODS.register(
    "smoothgrad_integrated_gradients",
    SaliencyMethod(
        name="smoothgrad_integrated_gradients",
        compute=_smoothgrad_integrated,
        convention="integrated gradients averaged over noisy copies: positive speaks for the target",
        source="Smilkov et al. 2017, section 3; Sundararajan et al. 2017",
        passes=_passes(60),
        additive=True,
        uses_baseline=True,
        seeded=True,
    ),
)


def _random(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    """Standard normal numbers, the same for texts of equal length."""
    scores = embedded.embeddings.new_zeros(embedded.attributed.shape)
    for row, length in enumerate(embedded.lengths):
        generator = torch.Generator().manual_seed(options.seed)
        scores[row, :length] = torch.randn(length, generator=generator).to(scores)
    return Raw(scores * embedded.attributed, (None,) * len(embedded))


METHODS.register(
    "random",
    SaliencyMethod(
        name="random",
        compute=_random,
        convention="a draw from a standard normal distribution: what knowing nothing gives",
        source="floor",
        passes=lambda tokens, options: 0,
        unused_is_zero=False,
        seeded=True,
        blind=True,
    ),
)
