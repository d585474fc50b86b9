"""What wrapping Captum takes: a seam as a module, seeds for its global generators, its notices kept quiet."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workbench.analysis.saliency.embedding_model import EmbeddingModel
from workbench.errors import TaskError

__all__ = ["SeamModule", "captum", "seeded", "single_reads", "tapped"]


class SeamModule(nn.Module):
    """A seam as a module: embeddings (N, T, D) and question numbers (N,) to scores (N,)."""

    def __init__(self, seam: EmbeddingModel) -> None:
        super().__init__()
        self.model = seam.model.model  # a sub-module, so that hooks on its layers are found
        self._seam = seam

    def forward(self, embeddings: Tensor, rows: Tensor) -> Tensor:
        """Score each row."""
        return self._seam.score(embeddings, rows)


def captum(method: str) -> Any:
    """The ``captum.attr`` module; raises :class:`TaskError` with the install command if it is missing."""
    try:
        import captum.attr
    except ImportError:
        raise TaskError(f"{method} needs Captum: pip install captum") from None
    return captum.attr


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Captum draws from the global generators: seed them here, and put them back as they were."""
    state = np.random.get_state()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # notices about hooks that it sets and removes
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)


@contextmanager
def tapped(block: nn.Module) -> Iterator[nn.Module]:
    """A module through which the hidden states pass on their way out of ``block``.

    Captum hooks modules that give tensors alone; a layer may give weights or ``None`` beside its states.
    """
    tap, forward = nn.Identity(), block.forward

    def through(*inputs: Any, **options: Any) -> Any:
        output = forward(*inputs, **options)
        return tap(output) if isinstance(output, Tensor) else (tap(output[0]), *output[1:])

    block.forward = through
    try:
        yield tap
    finally:
        del block.forward  # the class's own is found again


def single_reads(seam: EmbeddingModel, row: int) -> list[EmbeddingModel]:
    """One question as seams of one pass each, whose scores add up to the question's own."""
    question = seam.questions[row]
    return [
        seam.asking(
            [
                replace(
                    question,
                    reads=(read,),
                    parts=tuple(replace(part, read=0) for part in question.parts if part.read == number),
                )
            ],
            slice(row, row + 1),
        )
        for number, read in enumerate(question.reads)
    ]
