"""Change what a model computes in a ``with`` block: heads, attention, feed-forward, residual stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.choices import as_members
from workbench.errors import DataError, TraceError
from workbench.models import LoadedModel
from workbench.models.dispatched import stack_layers
from workbench.shapes import Array
from workbench.terminal import counted
from workbench.trace.attention_hook import AttentionCall, Session, Stack, Watcher, active
from workbench.trace.decoder import TextPass, pass_inputs, text_passes, token_mask
from workbench.trace.encoding import Text, batches_of
from workbench.trace.observing import session_on
from workbench.trace.parts import on_output, parts_of
from workbench.trace.structure import Route, Structure, call_model, structure_of

__all__ = [
    "Change",
    "Edit",
    "Site",
    "ablate_heads",
    "intervene",
    "mean_head_outputs",
    "mean_outputs",
    "replace",
    "scale",
]

Change: TypeAlias = Callable[[Tensor], Tensor]


class Site(StrEnum):
    """What is changed, with the shape that a change sees (N chosen heads, P chosen positions)."""

    ATTENTION = "attention"  # weights after the softmax: (B, N, P, K)
    HEAD_OUTPUT = "head_output"  # before the output projection: (B, P, N, d)
    ATTENTION_OUT = (
        "attention_out"  # what attention adds: after its output projection, and a norm there: (B, P, D)
    )
    MLP = "mlp"  # what a feed-forward part adds, likewise: (B, P, D)
    RESIDUAL = "residual"  # what leaves a layer: (B, P, D)


@dataclass(frozen=True)
class Edit:
    """One change at one layer. ``heads`` and ``positions`` (of queries) are all by default.

    ``change`` gets the chosen slice and returns what stands in its place, of the same or a broadcastable
    shape. ``stack`` is the model's main stack by default; "cross" is a decoder's attention to the source.
    """

    site: Site
    layer: int
    change: Change
    heads: tuple[int, ...] | None = None
    positions: tuple[int, ...] | None = None
    stack: Stack | None = None

    def __post_init__(self) -> None:
        as_members(self)


def scale(factor: float) -> Change:
    """Multiply by ``factor``; 0 ablates."""
    return lambda values: values * factor


def replace(values: Array | Tensor) -> Change:
    """Put ``values`` (of a broadcastable shape) in the place of what the model computed."""

    def change(old: Tensor) -> Tensor:
        return torch.as_tensor(values, dtype=old.dtype, device=old.device).expand_as(old)

    return change


@contextmanager
def intervene(model: LoadedModel, *edits: Edit) -> Iterator[None]:
    """Apply ``edits`` to every forward pass in this block, in this thread; the model's lock is held.

    Raises :class:`TraceError` if a layer or head is out of range, or the architecture computes attention
    where it cannot be changed.

    Example:
        ```python
        import workbench
        from workbench.trace import Edit, intervene, scale

        model = workbench.load("novels-decoder")
        with intervene(model, Edit("residual", 1, scale(0.5))):
            print(workbench.score(model, "The boys", " were").log_probability)
        ```
    """
    with model.lock:
        structure = structure_of(model.model)
        placed = [_place(edit, structure) for edit in edits]
        session = Session(structure.sites, (_Editor(placed),))
        with ExitStack() as stack:
            stack.enter_context(session_on(model.model, session))
            for site in (Site.ATTENTION_OUT, Site.MLP, Site.RESIDUAL):
                _hook_modules(model.model, [edit for edit in placed if edit.site is site], session, stack)
            yield


@contextmanager
def ablate_heads(
    model: LoadedModel,
    heads: Sequence[tuple[int, int]],
    means: Float[Array, "layer head head_width"] | None = None,
    stack: Stack | None = None,
) -> Iterator[None]:
    """Silence ``(layer, head)`` pairs: their output becomes zero, or its mean (:func:`mean_head_outputs`).

    Example:
        ```python
        import workbench
        from workbench.trace import ablate_heads

        model = workbench.load("novels-decoder")
        with ablate_heads(model, [(0, 1), (2, 3)]):
            print(workbench.score(model, "The boys", " were").log_probability)
        ```
    """
    edits = [
        Edit(
            Site.HEAD_OUTPUT,
            layer,
            scale(0.0) if means is None else replace(means[layer, head]),
            heads=(head,),
            stack=stack,
        )
        for layer, head in heads
    ]
    with intervene(model, *edits):
        yield


def mean_head_outputs(
    model: LoadedModel,
    texts: Sequence[Text],
    stack: Stack | None = None,
    batch_size: int = 8,
    targets: Sequence[Text] | None = None,
) -> Float[Array, "layer head head_width"]:
    """Mean output of each head over all tokens of ``texts``: what mean ablation puts in a head's place.

    Of an encoder-decoder's decoder, over the tokens of ``targets`` (generated by default) as it reads them behind
    ``texts``.
    """
    passes = text_passes(model, texts, targets)
    means = mean_outputs(model, passes, Site.HEAD_OUTPUT, stack, batch_size)
    found: Array = stack_layers(means).cpu().numpy()
    return found


def mean_outputs(
    model: LoadedModel,
    passes: Sequence[TextPass],
    site: Site,
    stack: Stack | None = None,
    batch_size: int = 8,
    by_position: bool = False,
) -> list[Tensor]:
    """Mean of a site in each layer over all tokens that ``stack`` reads: (D,), or (H, d) of heads.

    ``by_position`` keeps the positions apart, of texts that are all of one length: (T, D), or (T, H, d).
    An encoder-decoder runs as a whole, so a decoder's means are taken with its source. Memory: one batch.
    """
    structure = structure_of(model.model)
    where = structure.stack(stack)
    sums: dict[int, Tensor] = {}
    mask = torch.empty(0)

    def add(layer: int) -> Change:
        def look(values: Tensor) -> Tensor:  # (B, T, ...)
            known = mask.to(values.device).double()
            total = values.double().sum(0) if by_position else torch.tensordot(known, values.double(), dims=2)
            sums[layer] = sums.get(layer, torch.zeros_like(total)) + total
            return values

        return look

    count, shape = 0, None
    layers = range(structure.layers[where])
    with intervene(model, *[Edit(site, n, add(n), stack=where) for n in layers]):
        for rows in batches_of(model, [one.source for one in passes], batch_size):
            inputs = pass_inputs(model, [passes[i] for i in rows])
            mask = token_mask(model, where, inputs)
            shape = shape or mask.shape[1:]
            if by_position and (mask.shape[1:] != shape or not mask.all()):
                raise DataError("means by position need texts that are all of one length")
            count += len(mask) if by_position else int(mask.sum())
            call_model(model.model.base_model, **inputs)
    return [sums[n].div(count).float() for n in layers]


def _place(edit: Edit, structure: Structure) -> Edit:
    """The edit with its stack filled in and its numbers checked."""
    stack = structure.stack(edit.stack)
    structure.check(stack, (edit.layer,), edit.heads or ())
    structure.check_places(stack, (edit.layer,))
    if edit.site in (Site.ATTENTION, Site.HEAD_OUTPUT) and structure.route is Route.OUTPUTS:
        raise TraceError(
            f"this architecture computes attention outside transformers' attention interface, so {edit.site} "
            "cannot be changed; allowed are mlp and residual"
        )
    return Edit(edit.site, edit.layer, edit.change, edit.heads, edit.positions, stack)


class _Editor(Watcher):
    """Applies the edits of attention weights and head outputs."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self._edits = [edit for edit in edits if edit.site in (Site.ATTENTION, Site.HEAD_OUTPUT)]

    def wants(self, stack: Stack, layer: int) -> bool:
        """Whether this layer is looked at."""
        return any(edit.stack is stack and edit.layer == layer for edit in self._edits)

    def on_weights(self, call: AttentionCall) -> Tensor:
        """Apply the edits of weights."""
        return self._apply(Site.ATTENTION, call, call.weights, head_axis=1, position_axis=2)

    def on_heads(self, call: AttentionCall, heads: Tensor) -> Tensor:
        """Apply the edits of head outputs."""
        return self._apply(Site.HEAD_OUTPUT, call, heads, head_axis=2, position_axis=1)

    def _apply(
        self, site: Site, call: AttentionCall, values: Tensor, head_axis: int, position_axis: int
    ) -> Tensor:
        for edit in self._edits:
            if edit.site is site and edit.stack is call.stack and edit.layer == call.layer:
                values = _changed(values, edit, head_axis, position_axis)
        return values


def _changed(values: Tensor, edit: Edit, head_axis: int | None, position_axis: int) -> Tensor:
    """``values`` with the chosen slice changed, as a new tensor. Head and position axes are neighbours."""
    if edit.positions is None and (
        edit.heads is None or head_axis is None
    ):  # no gradient to what is replaced
        whole = edit.change(values).to(values.dtype).expand_as(values)
        return whole.clone(memory_format=torch.contiguous_format)
    index: list[Any] = [slice(None)] * values.ndim
    length = values.shape[position_axis]
    if edit.positions is not None:
        for position in edit.positions:
            if not -length <= position < length:
                raise TraceError(
                    f"position {position} is out of range: the text has {counted(length, 'token')}"
                )
        index[position_axis] = torch.tensor(edit.positions, device=values.device) % length
    if edit.heads is not None and head_axis is not None:
        index[head_axis] = torch.tensor(edit.heads, device=values.device)
    chosen_axes = [axis for axis, chosen in enumerate(index) if isinstance(chosen, Tensor)]
    if len(chosen_axes) == 2:  # broadcast against each other, so that the slice keeps both axes
        index[chosen_axes[0]] = index[chosen_axes[0]][:, None]
    changed = values.clone()
    changed[tuple(index)] = edit.change(values[tuple(index)]).to(values.dtype)
    return changed


def _hook_modules(model: Any, edits: Sequence[Edit], session: Session, stack: ExitStack) -> None:
    """Apply edits to the outputs of attention, feed-forward parts or whole layers."""
    for where in {edit.stack for edit in edits if edit.stack is not None}:
        mine = [edit for edit in edits if edit.stack is where]
        modules = _modules(model, mine[0].site, where)
        if not modules:
            raise TraceError(f"no {mine[0].site} was found in the {where} stack of {type(model).__name__}")
        change = _changer(mine, session, where)
        for name in dict.fromkeys(modules):
            stack.enter_context(on_output(model.get_submodule(name), change, first=True))


def _modules(model: Any, site: Site, stack: Stack) -> tuple[str, ...]:
    """Names of the modules whose outputs are the site's."""
    parts = parts_of(model)
    found = {
        Site.RESIDUAL: parts.blocks,
        Site.MLP: parts.mlp_outputs,
        Site.ATTENTION_OUT: parts.attention_outputs,
    }
    return found[site].get(stack, ())


def _changer(edits: Sequence[Edit], session: Session, where: Stack) -> Callable[[Tensor], Tensor | None]:
    def change(output: Tensor) -> Tensor | None:
        if session not in active():  # another thread's pass
            return None
        layer = session.next_layer(where, edits[0].site)
        for edit in edits:
            if edit.layer == layer:
                output = _changed(output, edit, None, output.ndim - 2)
        return output

    return change
