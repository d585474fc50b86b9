"""Path patching: the effect of one component on the answer through another component alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.patching._pair import PatchPair, PatchSite
from workbench.choices import as_members
from workbench.errors import DataError
from workbench.statistics import Statistic
from workbench.trace import Edit, structure_of

__all__ = ["OUTPUT", "Component", "component", "head_paths", "path_patching"]

OUTPUT = "output"
"""The receiver of direct effects: the model's logits."""

_KINDS = {"head": PatchSite.HEAD, "mlp": PatchSite.MLP_OUT, "attention": PatchSite.ATTENTION_OUT}
_PATTERN = re.compile(r"(?:head )?(?P<layer>\d+)\.(?P<head>\d+)|(?P<kind>mlp|attention) ?(?P<number>\d+)")


@dataclass(frozen=True)
class Component:
    """A head (``5.3``), or the attention (``attention 5``) or feed-forward part (``mlp 5``) of a layer."""

    site: PatchSite
    layer: int
    head: int | None = None

    def __post_init__(self) -> None:
        as_members(self)

    def __str__(self) -> str:
        if self.site is PatchSite.HEAD:
            return f"{self.layer}.{self.head}"
        return f"{'mlp' if self.site is PatchSite.MLP_OUT else 'attention'} {self.layer}"


def component(text: str) -> Component:
    """The component written as ``5.3``, ``mlp 5`` or ``attention 5``; else :class:`~workbench.errors.DataError`."""
    found = _PATTERN.fullmatch(text.strip().lower())
    if found is None:
        raise DataError(f"{text!r} is no component; write a head as 5.3, or mlp 5, or attention 5")
    if found["kind"]:
        return Component(_KINDS[found["kind"]], int(found["number"]))
    return Component(PatchSite.HEAD, int(found["layer"]), int(found["head"]))


def path_patching(
    pair: PatchPair, senders: Sequence[Component], receiver: Component | str = OUTPUT, batch_rows: int = 32
) -> Statistic:
    """Share of the clean answer that comes back along the direct path from each sender to the receiver.

    Wang et al. 2022, "Interpretability in the Wild", section 3.1 and appendix B: the sender has its clean value
    and every other head and feed-forward part its corrupted one, so the receiver sees the change only through the
    residual stream; then the corrupted run is repeated with what the receiver gives. With ``output`` the change
    goes straight to the logits. Components are patched at all positions.

    Raises :class:`~workbench.errors.DataError` where a sender does not come before the receiver.
    """
    end = component(receiver) if isinstance(receiver, str) and receiver != OUTPUT else receiver
    for one in senders:
        _check(pair, one)
        if isinstance(end, Component) and not _order(one) < _order(end):
            raise DataError(f"sender {one} must come before receiver {end}: nothing flows from it to there")
    if isinstance(end, Component):
        _check(pair, end)
    values: list[float] = []
    frozen = _Frozen(pair)
    with torch.no_grad():
        for start in range(0, len(senders), batch_rows):
            values += frozen.effects(senders[start : start + batch_rows], end)
    return Statistic(
        name=f"path patching to {end}",
        unit="share of the clean answer restored",
        values=torch.tensor([pair.normalised(v) for v in values], dtype=torch.float64).numpy(),
        axes=("sender",),
        labels={"sender": tuple(map(str, senders))},
        note=pair.about,
    )


def head_paths(pair: PatchPair, receiver: Component | str = OUTPUT, batch_rows: int = 32) -> Statistic:
    """:func:`path_patching` from every head to the receiver, by layer and head; NaN for heads after it."""
    end = component(receiver) if isinstance(receiver, str) and receiver != OUTPUT else receiver
    every = [Component(PatchSite.HEAD, n, h) for n in range(pair.layers) for h in range(pair.heads)]
    senders = [one for one in every if not isinstance(end, Component) or _order(one) < _order(end)]
    if not senders:
        raise DataError(f"no head comes before receiver {end}; choose a later one, or output")
    found = path_patching(pair, senders, end, batch_rows)
    values = np.full((pair.layers, pair.heads), np.nan)
    for one, value in zip(senders, found.values, strict=True):
        values[one.layer, one.head] = value
    labels = {"layer": tuple(range(pair.layers)), "head": tuple(range(pair.heads))}
    return Statistic(
        name=found.name,
        unit=found.unit,
        values=values,
        axes=("layer", "head"),
        labels=labels,
        note=found.note,
    )


def _check(pair: PatchPair, one: Component) -> None:
    heads = () if one.head is None else (one.head,)
    structure_of(pair.model.model).check(pair.stack, (one.layer,), heads)


def _order(one: Component) -> tuple[int, int]:
    """Attention comes before the feed-forward part of its layer."""
    return one.layer, int(one.site is PatchSite.MLP_OUT)


class _Frozen:
    """Both runs' components, to hold all but some at their corrupted values."""

    def __init__(self, pair: PatchPair) -> None:
        self._pair = pair
        sites = (PatchSite.HEAD, PatchSite.MLP_OUT)
        self._clean = {site: pair.activations(site) for site in sites}
        self._corrupted = {site: pair.activations(site, "corrupted") for site in sites}

    def effects(self, senders: Sequence[Component], receiver: Component | str) -> list[float]:
        """The metric for each sender."""
        caught: list[Tensor] = []
        edits = [
            Edit(site.traced, layer, self._hold(site, layer, senders, receiver, caught))
            for site in self._clean
            for layer in range(self._pair.layers)
        ]
        direct = self._pair.measure(len(senders), edits)
        if not isinstance(receiver, Component):
            return [float(value) for value in direct]
        again = self._pair.measure(len(senders), [_given(receiver, caught[0])])
        return [float(value) for value in again]

    def _hold(
        self,
        site: PatchSite,
        layer: int,
        senders: Sequence[Component],
        receiver: Component | str,
        caught: list[Tensor],
    ) -> Callable[[Tensor], Tensor]:
        """All rows at their corrupted values, each sender's at its clean one; the receiver's own is caught."""

        def change(values: Tensor) -> Tensor:
            if isinstance(receiver, Component) and receiver.layer == layer and _site(receiver) is site:
                caught.append(values.clone())
            held = self._corrupted[site][layer].expand_as(values).clone()
            for row, sender in enumerate(senders):
                if sender.layer == layer and _site(sender) is site:
                    heads = slice(None) if sender.head is None else sender.head
                    index = (row, slice(None), heads) if site is PatchSite.HEAD else (row,)
                    held[index] = self._clean[site][layer][(0, *index[1:])]
            return held

        return change


def _site(one: Component) -> PatchSite:
    """Where a component is held: a layer's attention is all of its heads."""
    return PatchSite.MLP_OUT if one.site is PatchSite.MLP_OUT else PatchSite.HEAD


def _given(receiver: Component, values: Tensor) -> Edit:
    """The receiver's output as it was caught."""

    def change(old: Tensor) -> Tensor:
        if receiver.head is None:
            return values
        new = old.clone()
        new[:, :, receiver.head] = values[:, :, receiver.head]
        return new

    return Edit(_site(receiver).traced, receiver.layer, change)
