"""The model-randomisation check: scores must change when the model forgets what it learned.

Cascading randomisation from the output to the embeddings (Adebayo et al. 2018, section 3.1). Weights are
shuffled within each tensor, which keeps their scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from workbench.models import LoadedModel
from workbench.trace.parts import parts_of

__all__ = ["cascade", "shuffled"]


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
def shuffled(model: LoadedModel, parts: Sequence[str] | None = None, seed: int = 0) -> Iterator[None]:
    """The weights of ``parts`` of :func:`cascade` (all by default) shuffled, and put back afterwards."""
    groups = cascade(model)
    weights = dict(model.model.named_parameters())
    names = [name for part in (groups if parts is None else parts) for name in groups[part]]
    kept = {name: weights[name].detach().clone() for name in names}
    generator = torch.Generator().manual_seed(seed)
    with model.lock:
        try:
            for name in names:
                _shuffle(weights[name], generator)
            yield
        finally:
            with torch.no_grad():
                for name, values in kept.items():
                    weights[name].copy_(values)


def _shuffle(weight: nn.Parameter, generator: torch.Generator) -> None:
    order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
    with torch.no_grad():
        weight.copy_(weight.flatten()[order].view_as(weight))
