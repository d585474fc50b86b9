"""Translation, or any other text to text: the target is predicted from the source and the target before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.training.objectives._draw import Batch, Draw, SpecialIds
from workbench.training.objectives.span_corruption import source_and_target

__all__ = ["TranslationPairs"]


class TranslationPairs:
    """Source and target as the tokenizer encodes them, its special tokens included.

    A draw is a pair: the source's ids, then the target's, which start at the draw's only sentence border. The loss is
    the mean negative log-likelihood of the target's tokens: Sutskever et al. 2014, equation 1; Bahdanau et al. 2015,
    section 2.1. ``input_ids`` and ``attention_mask`` (B, S), ``labels`` (B, T).
    """

    auto = "AutoModelForSeq2SeqLM"

    def __init__(self, special: SpecialIds, length: int) -> None:
        self.special = special
        self.length = length

    @property
    def window(self) -> int:
        """The most ids of a source, and of a target."""
        return self.length

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch of sources and targets."""
        sources, targets = zip(*(np.split(draw.ids, draw.sentences) for draw in draws), strict=True)
        return source_and_target(sources, targets, self.special.pad)
