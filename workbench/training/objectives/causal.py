"""Causal language modelling: every token is predicted from those before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from workbench.training.objectives._draw import IGNORED, Batch, Draw, SpecialIds

__all__ = ["CausalLM"]


class CausalLM:
    """Rows of ``length`` ids, each opened by BOS where the vocabulary has one; labels are the ids themselves.

    With ``isolate_documents`` positions start again at each document, which transformers reads as a border that
    attention does not cross (Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination"), and
    the first token of a document is not predicted from the one before.
    Radford et al. 2018, equation 1. ``input_ids`` and ``labels`` (B, T); position 0 is never a target.
    """

    auto = "AutoModelForCausalLM"

    def __init__(self, special: SpecialIds, length: int, *, isolate_documents: bool = False) -> None:
        self.special = special
        self.length = length
        self.isolate_documents = isolate_documents

    @property
    def window(self) -> int:
        """One id less than a row where BOS opens it."""
        return self.length - (self.special.bos is not None)

    def __call__(self, draws: Sequence[Draw]) -> Batch:
        """The batch; short draws are padded with unscored positions."""
        front = [] if self.special.bos is None else [self.special.bos]
        size = max(len(draw.ids) for draw in draws) + len(front)
        ids = np.full((len(draws), size), self.special.pad, dtype=np.int64)
        labels = np.full_like(ids, IGNORED)
        positions = np.tile(np.arange(size), (len(draws), 1))
        for row, draw in enumerate(draws):
            # a document that opens the window brings its own BOS
            opened = front if not len(draw.ids) or draw.ids[0] != self.special.bos else []
            whole = np.array([*opened, *draw.ids], dtype=np.int64)
            ids[row, : len(whole)] = whole
            labels[row, 1 : len(whole)] = whole[1:]
            if self.isolate_documents:
                for start in draw.documents + len(opened):
                    positions[row, start:] = np.arange(size - start)
                    labels[row, start] = IGNORED
        batch = {"input_ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}
        if self.isolate_documents:
            batch["position_ids"] = torch.from_numpy(positions)
        return batch
