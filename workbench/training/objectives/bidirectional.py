"""Language modelling in both directions: every token is predicted from those before it, and from those after it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.models.ancestors.elmo_configuration import ElmoConfig
from workbench.training.objectives._draw import IGNORED, Batch, Draw, SpecialIds, pad_rows

__all__ = ["BidirectionalLM"]


class BidirectionalLM:
    """Rows of ``length`` ids between BOS and EOS, where the vocabulary has them; labels are the ids themselves.

    Peters et al. 2018, "Deep Contextualized Word Representations", section 3.1. ``input_ids``, ``attention_mask`` and
    ``labels`` (B, T), -100 at padding: each direction scores all but the token that it starts with.
    """

    auto = "AutoModelForPreTraining"
    trains = ElmoConfig

    def __init__(self, special: SpecialIds, length: int) -> None:
        self.special = special
        self.length = length

    @property
    def window(self) -> int:
        """Ids between BOS and EOS."""
        return self.length - (self.special.bos is not None) - (self.special.eos is not None)

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch; short draws are padded on the right."""
        rows = [self._row(draw) for draw in draws]
        return {
            "input_ids": pad_rows(rows, self.special.pad),
            "attention_mask": pad_rows([np.ones_like(row) for row in rows], 0),
            "labels": pad_rows(rows, IGNORED),
        }

    def _row(self, draw: Draw) -> np.ndarray:
        """The ids, framed; a document that opens or ends the window brings its own frame."""
        ids = draw.ids.astype(np.int64)
        first = (
            [self.special.bos]
            if self.special.bos is not None and ids[:1].tolist() != [self.special.bos]
            else []
        )
        last = (
            [self.special.eos]
            if self.special.eos is not None and ids[-1:].tolist() != [self.special.eos]
            else []
        )
        return np.array([*first, *ids, *last], dtype=np.int64)
