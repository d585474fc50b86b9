"""Path patching: the effect of one component on the answer through another component alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.patching._pair import PatchPair, PatchSite
from workbench.choices import as_members, member
from workbench.errors import DataError
from workbench.statistics import Statistic
from workbench.trace import Edit, Site, Stack, replace, structure_of

__all__ = ["OUTPUT", "Component", "PathMlps", "component", "head_paths", "path_patching"]

OUTPUT = "output"
"""The receiver of direct effects: the model's logits."""

_KINDS = {"head": PatchSite.HEAD, "mlp": PatchSite.MLP_OUT, "attention": PatchSite.ATTENTION_OUT}
_PATTERN = re.compile(r"(?:head )?(?P<layer>\d+)\.(?P<head>\d+)|(?P<kind>mlp|attention) ?(?P<number>\d+)")


class PathMlps(StrEnum):
    """What the feed-forward parts between sender and receiver do."""

    RECOMPUTED = "recomputed"  # they are part of a direct path (Wang et al. 2022)
    FROZEN = "frozen"  # they keep their corrupted values: a direct path is the residual connection alone


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
    pair: PatchPair,
    senders: Sequence[Component],
    receiver: Component | str = OUTPUT,
    *,
    mlps: PathMlps | str = PathMlps.RECOMPUTED,
    batch_rows: int = 32,
) -> Statistic:
    """Share of the clean answer that comes back along the direct paths from each sender to the receiver.

    Wang et al. 2022, "Interpretability in the Wild", section 3.1 and appendix B: the sender has its clean value and
    every other attention head its corrupted one, so the receiver sees the change only through residual connections
    and feed-forward parts; then the corrupted run is repeated with what the receiver gives. ``mlps="frozen"`` holds
    the feed-forward parts at their corrupted values too. Wang et al. put corrupted values into the clean run; here
    clean ones go into the corrupted run, as in :func:`activation_patching`. With ``output`` the change goes straight
    to the logits; of an encoder beside a decoder, through all of the decoder. All positions are patched.

    Raises :class:`~workbench.errors.DataError` where a sender does not come before the receiver.
    """
    chosen = member(PathMlps, mlps, "mlps", DataError)
    end = component(receiver) if isinstance(receiver, str) and receiver != OUTPUT else receiver
    for one in senders:
        _check(pair, one)
        if isinstance(end, Component) and not _order(one) < _order(end):
            raise DataError(f"sender {one} must come before receiver {end}: nothing flows from it to there")
    if isinstance(end, Component):
        _check(pair, end)
    values: list[float] = []
    frozen = _Frozen(pair, chosen, senders, end)
    with torch.no_grad():
        for start in range(0, len(senders), batch_rows):
            values += frozen.effects(senders[start : start + batch_rows])
    return Statistic(
        name=f"path patching to {end}, feed-forward parts {chosen}",
        unit="share of the clean answer restored",
        values=torch.tensor([pair.normalised(v) for v in values], dtype=torch.float64).numpy(),
        axes=("sender",),
        labels={"sender": tuple(map(str, senders))},
        note=pair.about,
    )


def head_paths(
    pair: PatchPair,
    receiver: Component | str = OUTPUT,
    *,
    mlps: PathMlps | str = PathMlps.RECOMPUTED,
    batch_rows: int = 32,
) -> Statistic:
    """:func:`path_patching` from every head to the receiver, by layer and head; NaN for heads after it."""
    end = component(receiver) if isinstance(receiver, str) and receiver != OUTPUT else receiver
    every = [Component(PatchSite.HEAD, n, h) for n in range(pair.layers) for h in range(pair.heads)]
    senders = [one for one in every if not isinstance(end, Component) or _order(one) < _order(end)]
    if not senders:
        raise DataError(f"no head comes before receiver {end}; choose a later one, or output")
    found = path_patching(pair, senders, end, mlps=mlps, batch_rows=batch_rows)
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
    return one.layer, int(_is_mlp(one))


class _Frozen:
    """Both runs' components, to hold all but some at their corrupted values."""

    def __init__(
        self, pair: PatchPair, mlps: PathMlps, senders: Sequence[Component], receiver: Component | str
    ) -> None:
        self._pair, self._receiver = pair, receiver
        self._recomputed = mlps is PathMlps.RECOMPUTED
        layers = range(pair.layers)
        named = {one.layer for one in (*senders, receiver) if isinstance(one, Component) and _is_mlp(one)}
        self._held = {
            PatchSite.HEAD: layers,
            PatchSite.MLP_OUT: sorted(named) if self._recomputed else layers,
        }
        sites = [site for site, numbers in self._held.items() if numbers]
        self._clean = {site: pair.activations(site) for site in sites}
        self._corrupted = {site: pair.activations(site, "corrupted") for site in sites}
        crossed = pair.stack is Stack.DECODER and Stack.CROSS in structure_of(pair.model.model).layers
        self._cross = pair.activations(PatchSite.HEAD, "corrupted", Stack.CROSS) if crossed else []

    def effects(self, senders: Sequence[Component]) -> list[float]:
        """The metric for each sender."""
        caught: list[Tensor] = []
        edits = [
            Edit(site.traced, layer, self._hold(site, layer, senders, caught))
            for site, numbers in self._held.items()
            for layer in numbers
        ]
        edits += [
            Edit(Site.HEAD_OUTPUT, layer, replace(kept), stack=Stack.CROSS)
            for layer, kept in enumerate(self._cross)
        ]
        direct = self._pair.measure(len(senders), edits)
        if not isinstance(self._receiver, Component):
            return [float(value) for value in direct]
        again = self._pair.measure(len(senders), [_given(self._receiver, caught[0])])
        return [float(value) for value in again]

    def _hold(
        self, site: PatchSite, layer: int, senders: Sequence[Component], caught: list[Tensor]
    ) -> Callable[[Tensor], Tensor]:
        """Each sender's row at its clean value, others corrupted or as computed; the receiver's own is caught."""
        receiver = self._receiver

        def change(values: Tensor) -> Tensor:
            if isinstance(receiver, Component) and receiver.layer == layer and _site(receiver) is site:
                caught.append(values.clone())
            kept = site is PatchSite.MLP_OUT and self._recomputed
            held = (values if kept else self._corrupted[site][layer].expand_as(values)).clone()
            for row, sender in enumerate(senders):
                if sender.layer == layer and _site(sender) is site:
                    heads = slice(None) if sender.head is None else sender.head
                    index = (row, slice(None), heads) if site is PatchSite.HEAD else (row,)
                    held[index] = self._clean[site][layer][(0, *index[1:])]
            return held

        return change


def _is_mlp(one: Component) -> bool:
    return one.site is PatchSite.MLP_OUT


def _site(one: Component) -> PatchSite:
    """Where a component is held: a layer's attention is all of its heads."""
    return PatchSite.MLP_OUT if _is_mlp(one) else PatchSite.HEAD


def _given(receiver: Component, values: Tensor) -> Edit:
    """The receiver's output as it was caught."""

    def change(old: Tensor) -> Tensor:
        if receiver.head is None:
            return values
        new = old.clone()
        new[:, :, receiver.head] = values[:, :, receiver.head]
        return new

    return Edit(_site(receiver).traced, receiver.layer, change)
