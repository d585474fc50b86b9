"""The floor: scores that know nothing."""

from __future__ import annotations

import torch

from workbench.analysis.saliency._methods import METHODS, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency.embedding_model import EmbeddingModel

__all__: list[str] = []


def _random(seam: EmbeddingModel, options: SaliencyOptions) -> Raw:
    """Standard normal numbers, the same for texts of equal length."""
    scores = seam.embeddings.new_zeros(seam.explained.shape)
    for row, length in enumerate(seam.lengths):
        generator = torch.Generator().manual_seed(options.seed)
        scores[row, :length] = torch.randn(length, generator=generator).to(scores)
    return Raw(scores * seam.explained, (None,) * len(seam))


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
