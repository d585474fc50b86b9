"""Mean ablation: what is lost when one component says what it says on average."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.patching._activation import grid_of
from workbench.analysis.patching._pair import PatchPair, PatchSite, as_site
from workbench.errors import DataError
from workbench.models import LoadedModel
from workbench.statistics import Statistic
from workbench.trace import Edit, Stack, Text, intervene
from workbench.trace.encoding import batches_of, encode_all, inputs_of
from workbench.trace.structure import call_model, structure_of

__all__ = ["mean_ablation", "mean_activations"]


def mean_ablation(
    pair: PatchPair, site: str = PatchSite.HEAD, *, texts: Sequence[Text] | None = None, batch_rows: int = 32
) -> Statistic:
    """The clean run with one component at its mean: 1 where nothing is lost, 0 where the answer is the corrupted.

    The mean is over all tokens of ``texts`` (by default the two of the pair), as in Wang et al. 2022, section 2.2.
    By layer and head, or by layer for ``attention_out`` and ``mlp_out``; at all positions.

    Raises :class:`~workbench.errors.DataError` for ``residual``: a layer's mean state ends all that came before.
    """
    where = as_site(site)
    if where is PatchSite.RESIDUAL:
        raise DataError("mean ablation is of components; choose head, attention_out or mlp_out")
    given = list(pair.read) if texts is None else texts
    means = mean_activations(pair.model, given, where, pair.stack)
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


def mean_activations(
    model: LoadedModel, texts: Sequence[Text], site: str, stack: Stack | None = None, batch_size: int = 8
) -> list[Tensor]:
    """Mean of a site in each layer over all tokens of ``texts``: (D,), or (H, d) of heads. Memory: one batch.

    Of an encoder-decoder, the encoder's.
    """
    where = as_site(site).traced
    encoded = encode_all(model, texts)
    structure = structure_of(model.model)
    chosen = structure.stack(stack or (Stack.ENCODER if model.config.is_encoder_decoder else None))
    sums: dict[int, Tensor] = {}
    mask = torch.empty(0)

    def add(layer: int) -> Callable[[Tensor], Tensor]:
        def look(values: Tensor) -> Tensor:
            total = torch.tensordot(mask.to(values.device).double(), values.double(), dims=2)
            sums[layer] = sums.get(layer, torch.zeros_like(total)) + total
            return values

        return look

    count = 0
    layers = range(structure.layers[chosen])
    with intervene(model, *[Edit(where, n, add(n), stack=chosen) for n in layers]):
        for rows in batches_of(model, encoded, batch_size):
            inputs = inputs_of(model, [encoded[i] for i in rows])
            mask = inputs["attention_mask"]
            count += int(mask.sum())
            root = (
                structure.root(model.model, chosen)
                if model.config.is_encoder_decoder
                else model.model.base_model
            )
            call_model(root, **inputs)
    return [sums[n].div(count).float() for n in layers]
