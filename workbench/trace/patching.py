"""Activation patching: which activations of a clean run, put into a corrupted one, bring its answer back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from workbench.errors import TraceError
from workbench.models import LoadedModel
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace.encoding import Encoded, Text, encode_all, inputs_of, say_cut
from workbench.trace.interventions import Edit, Site, intervene, replace
from workbench.trace.structure import call_model, structure_of

__all__ = ["activation_patching"]


def activation_patching(
    model: LoadedModel,
    clean: Text,
    corrupted: Text,
    metric: Callable[[Tensor], float],
    *,
    site: Site = Site.RESIDUAL,
    layers: Sequence[int] | None = None,
    positions: Sequence[int] | None = None,
) -> Statistic:
    """Patch each layer and position (or head, for "head_output") of ``clean`` into ``corrupted``, singly.

    ``metric`` maps the logits of one text (T, V) to a number, such as a logit difference. Values are the
    share of the clean run's metric that comes back: 0 as corrupted, 1 as clean (Vig et al. 2020; Meng et al. 2022,
    section 2.1, normalised). The texts must have the same number of tokens.

    Raises :class:`TraceError` if they have not, or if both runs give the same metric.
    """
    site = Site(site)
    both = encode_all(model, [clean, corrupted])
    say_cut(both, model)
    if len(both[0].alignment) != len(both[1].alignment):
        raise TraceError(
            f"clean has {len(both[0].alignment)} tokens, corrupted {len(both[1].alignment)}: "
            "patching needs texts of equal length"
        )
    structure = structure_of(model.model)
    rows = tuple(range(structure.layers[structure.main]) if layers is None else layers)
    if site in (Site.HEAD_OUTPUT, Site.ATTENTION):
        axis, columns = "head", tuple(range(structure.heads[structure.main]))
    else:
        length = len(both[0].alignment)
        axis, columns = "position", tuple(range(length) if positions is None else positions)
    kept, clean_metric = _run_clean(model, both[0], site, rows, metric)
    corrupted_metric = _metric(model, both[1], metric)
    if clean_metric == corrupted_metric:
        raise TraceError(
            f"the metric is {clean_metric:.4g} for both texts, so there is nothing to bring back"
        )
    values = np.zeros((len(rows), len(columns)))
    for i, layer in enumerate(rows):
        for j, column in enumerate(columns):
            with intervene(model, _patch(site, layer, column, axis, kept[layer])):
                patched = _metric(model, both[1], metric)
            values[i, j] = (patched - corrupted_metric) / (clean_metric - corrupted_metric)
    return Statistic(
        name=f"patching effect ({site})",
        unit="share of the clean metric restored",
        values=values,
        axes=("layer", axis),
        labels={"layer": rows, axis: columns},
        note=f"metric: clean {clean_metric:.4g}, corrupted {corrupted_metric:.4g}",
    )


def _patch(site: Site, layer: int, column: int, axis: str, kept: Tensor) -> Edit:
    if axis == "position":
        return Edit(site, layer, replace(kept[:, [column]]), positions=(column,))
    head_axis = 1 if site is Site.ATTENTION else 2
    return Edit(site, layer, replace(kept.narrow(head_axis, column, 1)), heads=(column,))


def _run_clean(
    model: LoadedModel, text: Encoded, site: Site, layers: Sequence[int], metric: Callable[[Tensor], float]
) -> tuple[dict[int, Tensor], float]:
    """What the clean run computes at ``site`` in each layer, and its metric."""
    kept: dict[int, Tensor] = {}

    def keep(layer: int) -> Callable[[Tensor], Tensor]:
        def look(values: Tensor) -> Tensor:
            kept[layer] = values.detach().clone()
            return values

        return look

    with intervene(model, *(Edit(site, layer, keep(layer)) for layer in layers)):
        value = _metric(model, text, metric)
    return kept, value


def _metric(model: LoadedModel, text: Encoded, metric: Callable[[Tensor], float]) -> float:
    with model.lock:
        output = call_model(model.model, **inputs_of(model, [text]))
    if not hasattr(output, "logits"):
        raise TraceError(f"{model.name} has no head, so no logits to measure; patch a model with a head")
    logits: Tensor | Array = output.logits[0]
    return float(metric(torch.as_tensor(logits)))
