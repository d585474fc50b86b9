"""Activation patching: the clean run's activations, one by one, in the corrupted run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.analysis.patching._pair import PatchPair, PatchSite, as_site
from workbench.choices import as_members
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import Edit, structure_of

__all__ = ["Patch", "activation_patching", "grid_of", "patched_values", "rows_of"]

_ROWS = 32  # patches per forward pass


@dataclass(frozen=True)
class Patch:
    """One exchange: a layer's activation at ``positions`` and of ``heads``; all of either by default."""

    site: PatchSite
    layer: int
    positions: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        as_members(self)


def activation_patching(
    pair: PatchPair,
    site: str = PatchSite.RESIDUAL,
    *,
    layers: Sequence[int] | None = None,
    by_position: bool = False,
    batch_rows: int = _ROWS,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Statistic:
    """What share of the clean answer comes back when one activation of the clean run is put into the corrupted.

    Vig et al. 2020, "Investigating Gender Bias", section 3; Meng et al. 2022, "Locating and Editing Factual
    Associations", section 2.1. 0 is the corrupted run, 1 the clean one; values may lie outside. For ``residual``,
    ``attention_out`` and ``mlp_out`` by layer and position; for ``head`` by layer and head (all positions
    together), or with ``by_position`` by layer, head and position.

    Patches run in batches of ``batch_rows``, each from the first layer that a patch of it touches. ``progress``
    wraps the numbers of the batches, such as tqdm.

    Raises :class:`~workbench.errors.DataError` for an unknown site and
    :class:`~workbench.errors.TraceError` for a layer out of range or a site that the architecture hides.
    """
    where = as_site(site)
    rows, axes, labels = rows_of(pair, where, layers, by_position)
    differ = _differing(pair, where, rows)
    values = np.zeros(len(rows))
    values[differ] = patched_values(
        pair, [(rows[i],) for i in differ], batch_rows=batch_rows, progress=progress
    )
    return grid_of(pair, f"patching effect ({where})", values, axes, labels)


def _differing(pair: PatchPair, site: PatchSite, rows: Sequence[Patch]) -> list[int]:
    """Places of the patches that change anything: before the first different token a decoder's runs are equal."""
    clean, corrupted = (pair.activations(site, text) for text in ("clean", "corrupted"))
    differs = [(a != b).flatten(2).any(-1)[0] for a, b in zip(clean, corrupted, strict=True)]  # (T,) a layer
    return [
        i
        for i, row in enumerate(rows)
        if row.positions is None or bool(differs[row.layer][list(row.positions)].any())
    ]


def rows_of(
    pair: PatchPair, site: PatchSite, layers: Sequence[int] | None, by_position: bool = False
) -> tuple[list[Patch], tuple[str, ...], dict[str, tuple[str | int, ...]]]:
    """The patches of a grid in the order of its cells, its axes, and their labels."""
    chosen = tuple(range(pair.layers) if layers is None else layers)
    structure_of(pair.model.model).check(pair.stack, chosen)
    places = tuple(range(len(pair.read[0])))
    heads: tuple[int, ...] = tuple(range(pair.heads))
    if site is not PatchSite.HEAD:
        rows = [Patch(site, layer, (place,)) for layer in chosen for place in places]
        return rows, ("layer", "position"), {"layer": chosen, "position": pair.position_labels}
    if not by_position:
        rows = [Patch(site, layer, None, (head,)) for layer in chosen for head in heads]
        return rows, ("layer", "head"), {"layer": chosen, "head": heads}
    rows = [Patch(site, n, (place,), (head,)) for n in chosen for head in heads for place in places]
    labels: dict[str, tuple[str | int, ...]] = {
        "layer": chosen,
        "head": heads,
        "position": pair.position_labels,
    }
    return rows, ("layer", "head", "position"), labels


def grid_of(
    pair: PatchPair,
    name: str,
    values: Array,
    axes: tuple[str, ...],
    labels: dict[str, tuple[str | int, ...]],
) -> Statistic:
    """Values in the order of :func:`rows_of`, as a statistic."""
    return Statistic(
        name=name,
        unit="share of the clean answer restored",
        values=values.reshape([len(labels[axis]) for axis in axes]),
        axes=axes,
        labels=labels,
        note=pair.about,
    )


def patched_values(
    pair: PatchPair,
    rows: Sequence[tuple[Patch, ...]],
    *,
    batch_rows: int = _ROWS,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Float[Array, " row"]:
    """The normalised metric of the corrupted run with each row's patches made together."""
    sites = {patch.site for row in rows for patch in row}
    clean = {site: pair.activations(site) for site in sites}
    order = sorted(range(len(rows)), key=lambda i: -min((p.layer for p in rows[i]), default=0))
    values = np.zeros(len(rows))
    starts = range(0, len(rows), batch_rows)
    with torch.no_grad():
        for start in progress(starts):
            chosen = order[start : start + batch_rows]
            batch = [rows[i] for i in chosen]
            begin = min((patch.layer for row in batch for patch in row), default=0)
            found = pair.measure(len(batch), _edits(batch, clean), begin=begin)
            values[chosen] = [pair.normalised(float(value)) for value in found]
    return values


def _edits(batch: Sequence[tuple[Patch, ...]], clean: dict[PatchSite, list[Tensor]]) -> list[Edit]:
    """One edit for each site and layer that a patch of the batch touches; each changes its rows alone."""
    grouped: dict[tuple[PatchSite, int], list[tuple[int, Patch]]] = {}
    for row, patches in enumerate(batch):
        for patch in patches:
            grouped.setdefault((patch.site, patch.layer), []).append((row, patch))
    return [
        Edit(site.traced, layer, _exchange(patches, clean[site][layer]))
        for (site, layer), patches in grouped.items()
    ]


def _exchange(patches: Sequence[tuple[int, Patch]], clean: Tensor) -> Callable[[Tensor], Tensor]:
    def change(values: Tensor) -> Tensor:
        values = values.clone()
        for row, patch in patches:
            places = slice(None) if patch.positions is None else list(patch.positions)
            if patch.heads is None:
                values[row, places] = clean[0, places]
            else:
                for head in patch.heads:
                    values[row, places, head] = clean[0, places, head]
        return values

    return change
