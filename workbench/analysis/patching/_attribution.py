"""Attribution patching: all patches at once, to first order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.patching._activation import grid_of, rows_of
from workbench.analysis.patching._pair import PatchPair, PatchSite, as_site
from workbench.errors import NumericsError
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import Edit

__all__ = ["attribution_patching"]


def attribution_patching(
    pair: PatchPair,
    site: str = PatchSite.RESIDUAL,
    *,
    layers: Sequence[int] | None = None,
    by_position: bool = False,
) -> Statistic:
    """An estimate of :func:`activation_patching` from two forward passes and one backward pass.

    (clean - corrupted) · gradient of the metric in the corrupted run, summed over the width (Nanda 2023,
    "Attribution Patching"; Syed et al. 2023, section 2), on the same scale. Good where the metric is nearly linear
    between the two activations; poor for ``residual`` in early layers, where the whole input is exchanged.

    Raises :class:`~workbench.errors.DataError` for an unknown site and
    :class:`~workbench.errors.NumericsError` where gradients are NaN.
    """
    where = as_site(site)
    rows, axes, labels = rows_of(pair, where, layers, by_position)
    clean = pair.activations(where)
    corrupted, gradients = _gradients(pair, where)
    scale = pair.clean_value - pair.corrupted_value
    cells: dict[int, Array] = {}
    for layer in {row.layer for row in rows}:
        product = (clean[layer] - corrupted[layer]) * gradients[layer]
        if bool(product.isnan().any()):
            raise NumericsError(f"the gradient at {where} of layer {layer} is NaN; see: workbench doctor")
        found = product.sum(-1)[0].T if where is PatchSite.HEAD else product.sum(-1)[0]
        kept = found.sum(-1) if where is PatchSite.HEAD and not by_position else found
        cells[layer] = (kept / scale).double().cpu().numpy()
    values = np.stack([cells[layer] for layer in dict.fromkeys(row.layer for row in rows)])
    return grid_of(pair, f"attribution patching ({where})", values, axes, labels)


def _gradients(pair: PatchPair, site: PatchSite) -> tuple[list[Tensor], list[Tensor]]:
    """Activations of the corrupted run, and the gradient of its metric with respect to each."""
    kept: dict[int, Tensor] = {}

    def keep(layer: int) -> Callable[[Tensor], Tensor]:
        def look(values: Tensor) -> Tensor:
            values = values.clone()
            kept[layer] = values if values.requires_grad else values.requires_grad_()
            return values

        return look

    with torch.enable_grad():
        edits = [Edit(site.traced, n, keep(n)) for n in range(pair.layers)]
        value = pair.measure(1, edits, detached=False)[0]
        found = torch.autograd.grad(value, [kept[n] for n in range(pair.layers)])
    return [kept[n].detach() for n in range(pair.layers)], list(found)
