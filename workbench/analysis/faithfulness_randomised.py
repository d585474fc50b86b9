"""The model-randomisation check: scores must change when the model forgets what it learned.

Cascading randomisation from the output to the embeddings (Adebayo et al. 2018, section 3.1). Weights are
shuffled within each tensor, which keeps their scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from workbench.models import LoadedModel
from workbench.trace.parts import parts_of

__all__ = ["cascade", "shuffled", "shuffling"]


def cascade(model: LoadedModel) -> dict[str, tuple[str, ...]]:
    """Names of weights by part, from the output to the embeddings: head, layers from the last, embeddings."""
    parts = parts_of(model.model)
    blocks = [
        (f"{stack} layer {i}", name) for stack, names in parts.blocks.items() for i, name in enumerate(names)
    ]
    found: dict[str, list[str]] = {
        "head": [],
        **{label: [] for label, _ in reversed(blocks)},
        "embeddings": [],
    }
    embedding = model.model.get_input_embeddings().weight
    for name, weight in model.model.named_parameters():
        label = next((label for label, block in blocks if name.startswith(f"{block}.")), None)
        if label is None:
            inside = weight is embedding or "embed" in name
            label = "embeddings" if inside else "head"
        found[label].append(name)
    return {label: tuple(names) for label, names in found.items() if names}


@contextmanager
def shuffling(model: LoadedModel, seed: int = 0) -> Iterator[Iterator[str]]:
    """Gives an iterator that shuffles one part of :func:`cascade` more at each step, and names it.

    At the end of the block all weights are put back. ``model.lock`` is held in it.
    """
    kept: dict[nn.Parameter, torch.Tensor] = {}
    with model.lock:
        try:
            yield _shuffled_parts(model, torch.Generator().manual_seed(seed), kept)
        finally:
            with torch.no_grad():
                for weight, values in kept.items():
                    weight.copy_(values)


def _shuffled_parts(
    model: LoadedModel, generator: torch.Generator, kept: dict[nn.Parameter, torch.Tensor]
) -> Iterator[str]:
    weights = dict(model.model.named_parameters())
    for part, names in cascade(model).items():
        for name in names:
            kept[weights[name]] = weights[name].detach().clone()
            _shuffle(weights[name], generator)
        yield part


@contextmanager
def shuffled(model: LoadedModel, seed: int = 0) -> Iterator[None]:
    """All weights shuffled, and put back at the end of the block."""
    with shuffling(model, seed) as parts:
        for _ in parts:
            pass
        yield


def _shuffle(weight: nn.Parameter, generator: torch.Generator) -> None:
    order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
    with torch.no_grad():
        weight.copy_(weight.flatten()[order].view_as(weight))
