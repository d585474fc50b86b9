"""Mean ablation: what is lost when one component says what it says on average."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.patching._activation import grid_of
from workbench.analysis.patching._pair import PatchPair, PatchSite, as_site
from workbench.errors import DataError
from workbench.statistics import Statistic
from workbench.trace import Edit, Text
from workbench.trace.interventions import mean_outputs

__all__ = ["mean_ablation"]


def mean_ablation(
    pair: PatchPair, site: str = PatchSite.HEAD, *, texts: Sequence[Text] | None = None, batch_rows: int = 32
) -> Statistic:
    """The clean run with one component at its mean: 1 where nothing is lost, 0 where the answer is the corrupted.

    The mean is over all tokens that the patched stack reads of ``texts`` (by default the two of the pair), as in
    Wang et al. 2022, section 2.2; a decoder beside an encoder reads the pair's own target behind each.
    By layer and head, or by layer for ``attention_out`` and ``mlp_out``; at all positions.

    Raises :class:`~workbench.errors.DataError` for ``residual``: a layer's mean state ends all that came before.
    """
    where = as_site(site)
    if where is PatchSite.RESIDUAL:
        raise DataError("mean ablation is of components; choose head, attention_out or mlp_out")
    means = mean_outputs(pair.model, pair.passes(texts), where.traced, pair.stack)
    heads: list[int | None] = [None] if where is not PatchSite.HEAD else [*range(pair.heads)]
    cells = [(layer, head) for layer in range(pair.layers) for head in heads]
    values = np.zeros(len(cells))
    order = range(len(cells) - 1, -1, -1)
    with torch.no_grad():
        for start in range(0, len(cells), batch_rows):
            chosen = list(order[start : start + batch_rows])
            rows = [cells[i] for i in chosen]
            found = pair.measure(
                len(rows), _edits(rows, means, where), base="clean", begin=min(layer for layer, _ in rows)
            )
            values[chosen] = [pair.normalised(float(value)) for value in found]
    axes = ("layer", "head") if where is PatchSite.HEAD else ("layer", "component")
    layers: tuple[str | int, ...] = tuple(range(pair.layers))
    columns: tuple[str | int, ...] = tuple(range(pair.heads)) if where is PatchSite.HEAD else (where.value,)
    return grid_of(pair, f"mean ablation ({where})", values, axes, {"layer": layers, axes[1]: columns})


def _edits(rows: Sequence[tuple[int, int | None]], means: Sequence[Tensor], site: PatchSite) -> list[Edit]:
    def change(layer: int) -> Callable[[Tensor], Tensor]:
        def ablate(values: Tensor) -> Tensor:
            values = values.clone()
            for row, (where, head) in enumerate(rows):
                if where == layer:
                    index = (row,) if head is None else (row, slice(None), head)
                    values[index] = (means[layer] if head is None else means[layer][head]).to(values)
            return values

        return ablate

    return [Edit(site.traced, layer, change(layer)) for layer in sorted({layer for layer, _ in rows})]
