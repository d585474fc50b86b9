"""Activation patching: the clean run's activations, one by one, in the corrupted run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.analysis.patching._pair import PatchPair, PatchSite, as_site
from workbench.choices import as_members, member
from workbench.errors import DataError, NumericsError
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import Edit, Text, structure_of
from workbench.trace.decoder import TextPass, read_by
from workbench.trace.interventions import mean_outputs

__all__ = [
    "MeanOver",
    "Patch",
    "activation_patching",
    "attribution_patching",
    "grid_of",
    "mean_ablation",
    "mean_effects",
    "patched_values",
    "rows_of",
]

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
    Associations", section 2.1, whose corrupted run has noise on the subject where here it reads another text. 0 is the
    corrupted run, 1 the clean one; values may lie outside. For ``residual``, ``attention_out`` and ``mlp_out`` by layer
    and position; for ``head`` by layer and head (all positions together), or with ``by_position`` by layer, head and
    position.

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


class MeanOver(StrEnum):
    """Over what a component's mean is taken."""

    TOKENS = "tokens"  # over all tokens of all texts: one mean for every position
    POSITIONS = "positions"  # over texts, at each position: texts are samples of one template


def mean_ablation(
    pair: PatchPair,
    site: str = PatchSite.HEAD,
    *,
    mean: MeanOver | str = MeanOver.TOKENS,
    texts: Sequence[Text] | None = None,
    batch_rows: int = 32,
) -> Statistic:
    """The clean run with one component at its mean: 1 where nothing is lost, 0 where the answer is the corrupted.

    The mean is over all tokens that the patched stack reads of ``texts`` (by default the two of the pair). With
    ``mean="positions"`` each position has its own, over ``texts`` that are samples of one template, as long as the
    pair's: the knockout of Wang et al. 2022, "Interpretability in the Wild", section 2.2. A decoder beside an encoder
    reads the pair's own target behind each text. By layer and head, or by layer for ``attention_out`` and
    ``mlp_out``; at all positions.

    Raises :class:`~workbench.errors.DataError` for ``residual``, where a layer's mean state ends all that came
    before, and for means by position of texts that differ in length.
    """
    where, over = as_site(site), member(MeanOver, mean, "mean", DataError)
    if where is PatchSite.RESIDUAL:
        raise DataError("mean ablation is of components; choose head, attention_out or mlp_out")
    passes, by_position = pair.passes(texts), over is MeanOver.POSITIONS
    if by_position:
        _check_one_length(pair, passes)
    means = mean_outputs(pair.model, passes, where.traced, pair.stack, by_position=by_position)
    heads: list[int | None] = [None] if where is not PatchSite.HEAD else [*range(pair.heads)]
    cells = [(layer, head) for layer in range(pair.layers) for head in heads]
    values = np.zeros(len(cells))
    order = range(len(cells) - 1, -1, -1)
    with torch.no_grad():
        for start in range(0, len(cells), batch_rows):
            chosen = list(order[start : start + batch_rows])
            rows = [cells[i] for i in chosen]
            found = pair.measure(
                len(rows),
                _mean_edits(rows, means, where),
                base="clean",
                begin=min(layer for layer, _ in rows),
            )
            values[chosen] = [pair.normalised(float(value)) for value in found]
    axes = ("layer", "head") if where is PatchSite.HEAD else ("layer", "component")
    layers: tuple[str | int, ...] = tuple(range(pair.layers))
    columns: tuple[str | int, ...] = tuple(range(pair.heads)) if where is PatchSite.HEAD else (where.value,)
    name = f"mean ablation ({where}, mean over {over})"
    return grid_of(pair, name, values, axes, {"layer": layers, axes[1]: columns})


def _check_one_length(pair: PatchPair, passes: Sequence[TextPass]) -> None:
    wanted = len(pair.read[0])
    for number, one in enumerate(passes, start=1):
        length = len(read_by(pair.model, pair.stack, one).alignment)
        if length != wanted:
            raise DataError(
                f"text {number} has {length} tokens, the pair {wanted}: a mean by position needs texts of one length; "
                "give samples of the pair's template, or take the mean over tokens"
            )


def _mean_edits(
    rows: Sequence[tuple[int, int | None]], means: Sequence[Tensor], site: PatchSite
) -> list[Edit]:
    def change(layer: int) -> Callable[[Tensor], Tensor]:
        def ablate(values: Tensor) -> Tensor:
            values = values.clone()
            for row, (where, head) in enumerate(rows):
                if where == layer:
                    index = (row,) if head is None else (row, slice(None), head)
                    values[index] = (means[layer] if head is None else means[layer][..., head, :]).to(values)
            return values

        return ablate

    return [Edit(site.traced, layer, change(layer)) for layer in sorted({layer for layer, _ in rows})]


def mean_effects(
    pairs: Sequence[PatchPair], effects: Sequence[Statistic], positions: Sequence[str] | None = None
) -> Statistic:
    """Effects of many pairs of one shape as one: all of what comes back over all that could.

    Each pair counts by the difference of its two runs (a ratio of sums), so that pairs which the model hardly tells
    apart do not swamp the mean. The standard error is the linearised one of a ratio, over pairs; one pair has none
    (NaN). ``positions`` names the places, whose tokens differ between pairs.

    Raises :class:`~workbench.errors.DataError` without pairs, or if their effects differ in shape.
    """
    shapes = {effect.values.shape for effect in effects}
    if len(pairs) != len(effects) or len(shapes) != 1:
        raise DataError(
            f"{len(pairs)} pairs with effects of shapes {sorted(shapes)}; they must be of one shape"
        )
    weights = np.array([pair.clean_value - pair.corrupted_value for pair in pairs])
    values = np.stack([effect.values for effect in effects])  # (pair, ...)
    spread = weights.reshape(-1, *[1] * (values.ndim - 1))
    mean = (spread * values).sum(0) / weights.sum()
    rest = spread * (values - mean)
    count = len(pairs)
    total = abs(weights.sum())
    error = np.full_like(mean, np.nan)
    if count > 1:
        error = np.sqrt((rest**2).sum(0) / (count - 1) * count) / total
    first = effects[0]
    labels = {axis: names for axis, names in first.labels.items() if axis != "position"}
    if positions is not None:
        labels["position"] = tuple(positions)
    return Statistic(
        name=f"{first.name}, {count} pair{'s' if count > 1 else ''}",
        unit=first.unit,
        values=mean,
        axes=first.axes,
        labels=labels,
        standard_error=error,
        note=f"mean metric: clean {np.mean([p.clean_value for p in pairs]):.3f}, "
        f"corrupted {np.mean([p.corrupted_value for p in pairs]):.3f}"
        + ("" if count > 1 else "; standard errors undefined (one pair has no spread)"),
    )
