"""How far training moved a model's weights: by layer and part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from workbench.errors import DataError
from workbench.models import LoadedModel
from workbench.models.dispatched import weights_in_memory
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.terminal import counted
from workbench.trace.parts import parts_of
from workbench.trace.structure import structure_of

__all__ = ["PARTS", "weight_distance"]

PARTS = ("all", "attention", "feed-forward", "norms")
"""Columns of :func:`weight_distance`; what of a layer is neither attention nor a norm is its feed-forward part."""


def weight_distance(before: LoadedModel, after: LoadedModel) -> Statistic:
    """||after - before|| / ||before|| (Frobenius norms) of the weights of each layer and part.

    Layers are the embeddings, each block from 0, the output (final norm and head; a head that shares the embeddings'
    matrix counts there), and the whole model. A part without weights is NaN. No interval: weights are no
    sample of texts.

    Raises :class:`~workbench.errors.DataError` where the models have no weights of one name and shape, and
    :class:`~workbench.errors.TraceError` for a model whose blocks cannot be found.

    Example:
        ```python
        import workbench
        from workbench.analysis.weight_changes import weight_distance

        model = workbench.load("novels-decoder")
        print(weight_distance(model, model))
        ```
    """
    places = _Places.of(before)
    labels = ("embeddings", *range(len(places.blocks)), "output", "whole model")
    squares: Array = np.zeros((2, len(labels), len(PARTS)))  # of the difference, of before
    unlike = 0
    for name, module, first, second in _pairs(before, after):
        if second is None or second.shape != first.shape:
            unlike += 1
            continue
        row, part = places.find(name, module)
        found = [_square(second.cpu().double() - first.cpu().double()), _square(first.cpu().double())]
        for column in {0, part}:
            squares[:, [row, -1], column] += np.array(found)[:, None]
    if not squares[1].any():
        raise DataError(
            f"{before.name} and {after.name} share no weights of one name and shape; compare models of one "
            "architecture"
        )
    with np.errstate(invalid="ignore"):
        values = np.sqrt(squares[0]) / np.sqrt(squares[1])
    left_out = f"; {counted(unlike, 'weight')} of other names or shapes left out" if unlike else ""
    return Statistic(
        name="distance of weights",
        unit="relative Frobenius norm",
        values=values,
        axes=("layer", "part"),
        labels={"layer": labels, "part": PARTS},
        note=f"||after - before|| / ||before||{left_out}",
    )


def _square(tensor: Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor) ** 2)


def _pairs(before: LoadedModel, after: LoadedModel) -> Iterator[tuple[str, nn.Module, Tensor, Tensor | None]]:
    """Each weight of ``before`` once, with its module's name, and that of ``after`` in the same place."""
    others = dict(after.model.named_modules())
    seen: set[int] = set()
    with torch.no_grad():
        for name, module in before.model.named_modules():
            other = others.get(name)
            for key, weight in module.named_parameters(recurse=False):
                if id(weight) in seen:
                    continue
                seen.add(id(weight))
                with weights_in_memory(module):
                    first = getattr(module, key).detach()
                    if other is None or not isinstance(getattr(other, key, None), Tensor):
                        yield name, module, first, None
                        continue
                    with weights_in_memory(other):
                        yield name, module, first, getattr(other, key).detach()


@dataclass(frozen=True)
class _Places:
    """Where in a model a module stands: names of its blocks, and of modules that belong to attention."""

    blocks: tuple[str, ...]
    attention: tuple[str, ...]

    @classmethod
    def of(cls, model: LoadedModel) -> _Places:
        """Those of ``model``."""
        structure, parts = structure_of(model.model), parts_of(model.model)
        sites = [name for name, module in model.model.named_modules() if id(module) in structure.sites]
        return cls(parts.blocks[structure.main], (*sites, *parts.projections.values()))

    def find(self, name: str, module: nn.Module) -> tuple[int, int]:
        """Row (layer) and column (part) of a module's weights; 0 where it is no part of a block."""
        block = next((n for n, b in enumerate(self.blocks) if _inside(name, b)), None)
        if block is None:
            return (0 if _embeds(name, module) else len(self.blocks) + 1), 0
        if "norm" in type(module).__name__.lower():
            return block + 1, PARTS.index("norms")
        attends = any(_inside(name, place) for place in self.attention)
        return block + 1, PARTS.index("attention" if attends else "feed-forward")


def _inside(name: str, place: str) -> bool:
    return name == place or name.startswith(f"{place}.")


def _embeds(name: str, module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) or "embed" in name
