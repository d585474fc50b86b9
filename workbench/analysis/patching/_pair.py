"""A clean text, a corrupted one of equal length, and the runs of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.analysis.lens import TargetToken, different_targets, target_token
from workbench.choices import as_members, member
from workbench.errors import DataError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.scoring import Projected, project_only
from workbench.terminal import counted
from workbench.text import Alignment
from workbench.trace import Edit, Route, Site, Stack, Text, intervene, structure_of
from workbench.trace.decoder import NOTHING, TextPass, text_passes
from workbench.trace.residual import Reading, StackRun, check_stack, read_text, run_from, run_rows, run_stack

__all__ = ["MetricKind", "PatchPair", "PatchSite", "PatchingMetric", "as_site", "make_metric", "patch_pair"]


class MetricKind(StrEnum):
    """Names of the metrics."""

    LOGIT_DIFFERENCE = "logit_difference"  # of target and contrast; the target's logit without a contrast
    PROBABILITY = "probability"  # of the target
    LOG_PROBABILITY = "log_probability"  # of the target, in nats


@dataclass(frozen=True)
class PatchingMetric:
    """A metric with its target, and what it is compared with. Logits (N, V) to numbers (N,)."""

    kind: MetricKind
    target: TargetToken
    contrast: TargetToken | None = None

    def __post_init__(self) -> None:
        as_members(self)

    def __call__(self, logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
        """The metric of each row."""
        scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self.kind is MetricKind.LOGIT_DIFFERENCE:
            wanted = scores[:, self.target.id]
            return wanted if self.contrast is None else wanted - scores[:, self.contrast.id]
        found = scores.log_softmax(-1)[:, self.target.id]
        return found.exp() if self.kind is MetricKind.PROBABILITY else found

    @property
    def about(self) -> str:
        """Name and targets in words."""
        name = self.kind.value.replace("_", " ")
        if self.kind is MetricKind.LOGIT_DIFFERENCE and self.contrast is not None:
            return f"{name} {self.target.text!r} - {self.contrast.text!r}"
        return f"{'logit' if self.kind is MetricKind.LOGIT_DIFFERENCE else name} of {self.target.text!r}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know about targets of several pieces."""
        return tuple(t.note for t in (self.target, self.contrast) if t is not None and t.note)


def make_metric(
    model: LoadedModel, target: str, contrast: str | None = None, kind: str | None = None
) -> PatchingMetric:
    """The metric of words (or, of a classifier, of label names or numbers).

    By default the logit difference where there is a contrast, else the probability. Raises
    :class:`~workbench.errors.DataError` for a target that is not in the vocabulary or no label.
    """
    name = kind or (MetricKind.PROBABILITY if contrast is None else MetricKind.LOGIT_DIFFERENCE)
    chosen = member(MetricKind, name, "metric", DataError)
    find = _label if model.kind is Kind.CLASSIFIER else target_token
    wanted = find(model, target)
    other = None if contrast is None else find(model, contrast)
    different_targets(wanted, other)
    return PatchingMetric(chosen, wanted, other)


def _label(model: LoadedModel, text: str) -> TargetToken:
    names = {int(number): str(name) for number, name in model.config.id2label.items()}
    for number, name in names.items():
        if text in (name, str(number)):
            return TargetToken(text, number, name)
    raise DataError(f"{model.name} has no label {text!r}; its labels are {', '.join(names.values())}")


class PatchSite(StrEnum):
    """Where activations are exchanged."""

    RESIDUAL = "residual"  # what leaves a layer
    ATTENTION_OUT = "attention_out"  # what a layer's attention adds
    MLP_OUT = "mlp_out"  # what a layer's feed-forward part adds
    HEAD = "head"  # what one head hands to the output projection

    @property
    def traced(self) -> Site:
        """The site of :mod:`workbench.trace`."""
        return {
            PatchSite.RESIDUAL: Site.RESIDUAL,
            PatchSite.ATTENTION_OUT: Site.ATTENTION_OUT,
            PatchSite.MLP_OUT: Site.MLP,
            PatchSite.HEAD: Site.HEAD_OUTPUT,
        }[self]


def as_site(name: str) -> PatchSite:
    """The site called ``name``; raises :class:`~workbench.errors.DataError` with the names."""
    return member(PatchSite, name, "site", DataError)


@dataclass(frozen=True, eq=False)
class PatchPair:
    """Two texts of equal length, one place to predict at, and what the model says there for either.

    ``place`` is the token whose logits are measured, ``None`` for a classifier. ``stack`` is the one whose
    activations are exchanged.
    """

    model: LoadedModel
    clean: Reading
    corrupted: Reading
    metric: PatchingMetric
    place: int | None
    stack: Stack
    clean_run: StackRun
    corrupted_run: StackRun
    clean_value: float
    corrupted_value: float
    kept: Mapping[tuple[str, PatchSite, Stack], list[Tensor]] = field(default_factory=dict)  # see activations

    @property
    def read(self) -> tuple[Alignment, Alignment]:
        """Tokens of both texts in the stack that is patched."""
        found = [
            r.source if self._in_encoder and r.source else r.alignment for r in (self.clean, self.corrupted)
        ]
        return found[0], found[1]

    @property
    def _in_encoder(self) -> bool:
        return self.stack is Stack.ENCODER

    @property
    def layers(self) -> int:
        """Layers of the patched stack."""
        return structure_of(self.model.model).layers[self.stack]

    @property
    def heads(self) -> int:
        """Heads of one of its layers."""
        return structure_of(self.model.model).heads[self.stack]

    @property
    def about(self) -> str:
        """Metric and its two values in words."""
        values = f"{self.metric.about}: clean {self.clean_value:.4g}, corrupted {self.corrupted_value:.4g}"
        return "; ".join([values, *self.metric.notes])

    @property
    def position_labels(self) -> tuple[str, ...]:
        """``place token`` or, where the texts differ, ``place clean|corrupted``."""
        return tuple(
            f"{i} {a}" if a == b else f"{i} {a}|{b}"
            for i, (a, b) in enumerate(zip(self.read[0].tokens, self.read[1].tokens, strict=True))
        )

    def passes(self, texts: Sequence[Text] | None = None) -> list[TextPass]:
        """The pair's own two passes, or those of other texts, behind which a decoder reads the clean one's target."""
        if texts is None:
            return [self.clean.texts, self.corrupted.texts]
        if not self.clean.has_source:
            return text_passes(self.model, texts)
        found = text_passes(self.model, texts, [NOTHING] * len(texts))
        return [replace(one, read=self.clean.texts.read) for one in found]

    def normalised(self, value: float) -> float:
        """``value`` of the metric on the scale where the corrupted run is 0 and the clean one 1."""
        return (value - self.corrupted_value) / (self.clean_value - self.corrupted_value)

    def measure(
        self,
        rows: int,
        edits: Sequence[Edit],
        *,
        base: str = "corrupted",
        begin: int = 0,
        detached: bool = True,
    ) -> Tensor:
        """The metric (rows,) of ``rows`` copies of a text with ``edits``, on the CPU if ``detached``.

        ``base`` names the text; ``begin`` is the first layer that is computed, where no edit lies below it.
        """
        reading, run = (
            (self.clean, self.clean_run) if base == "clean" else (self.corrupted, self.corrupted_run)
        )
        structure = structure_of(self.model.model)
        main, begin = structure.main, 0 if structure.route is Route.OUTPUTS else begin
        projected: Projected | None = None
        with ExitStack() as stack:
            if self.place is not None:
                width = len(reading)
                places = torch.arange(rows, device=self.model.device) * width + self.place
                projected = stack.enter_context(project_only(self.model.model, places, (rows, width)))
            stack.enter_context(
                intervene(self.model, *[self._moved(e, begin if self.stack is main else 0) for e in edits])
            )
            if self.stack is main:
                states = run.states[begin].expand(rows, -1, -1)
                logits = run_from(self.model, run, begin, states)
            else:
                logits = run_rows(self.model, reading.inputs, rows)
        found = self.metric(logits if projected is None else projected.chosen(logits))
        return found.detach().cpu() if detached else found

    def _moved(self, edit: Edit, begin: int) -> Edit:
        """The edit with its layer as the session counts it: parts of layers that do not run are not counted."""
        layer = edit.layer if edit.site is Site.RESIDUAL else edit.layer - begin
        return Edit(edit.site, layer, edit.change, edit.heads, edit.positions, edit.stack or self.stack)

    def activations(self, site: PatchSite, text: str = "clean", stack: Stack | None = None) -> list[Tensor]:
        """What a run computes at ``site`` in each layer: (1, T, D), or (1, T, H, d) of heads.

        Of the patched stack, or of ``stack``.
        """
        where, run = stack or self.stack, self.clean_run if text == "clean" else self.corrupted_run
        if site is PatchSite.RESIDUAL and where is structure_of(self.model.model).main:
            return list(run.states[1:])
        if (text, site, where) in self.kept:
            return self.kept[text, site, where]
        kept, edits = _keeping(self.model, site, where)
        with torch.no_grad():
            self.measure(1, edits, base=text)
        return list(kept.values())


def _keeping(model: LoadedModel, site: PatchSite, stack: Stack) -> tuple[dict[int, Tensor], list[Edit]]:
    """By layer what the last pass computes at ``site``, once it ran, and edits that change nothing but keep it."""
    kept: dict[int, Tensor] = {}

    def keep(layer: int) -> Callable[[Tensor], Tensor]:
        def look(values: Tensor) -> Tensor:
            kept[layer] = values.detach().clone()
            return values

        return look

    return kept, [
        Edit(site.traced, n, keep(n), stack=stack) for n in range(structure_of(model.model).layers[stack])
    ]


def patch_pair(
    model: LoadedModel,
    clean: Text,
    corrupted: Text,
    target: str,
    contrast: str | None = None,
    *,
    metric: str | None = None,
    position: int | None = None,
    target_text: Text | None = None,
    stack: str | None = None,
    keep: str | None = None,
) -> PatchPair:
    """Run both texts and check that they can be exchanged.

    Args:
        model: any model with a head.
        clean: the text whose answer patching brings back.
        corrupted: the text that is patched; as many tokens as ``clean``.
        target: what the clean text makes likely, such as ``" are"``; of a classifier, a label.
        contrast: what the corrupted text makes likely instead, such as ``" is"``.
        metric: "logit_difference", "probability" or "log_probability"; see :func:`make_metric`.
        position: the place that predicts; by default the last, or the mask of a masked model.
        target_text: what the decoder of an encoder-decoder has said before the target; nothing by default.
        stack: "encoder" or "decoder" of an encoder-decoder: whose activations are exchanged (the encoder's).
        keep: a site whose activations are kept of both runs, where patching there would run them once more.

    Raises:
        DataError: texts of different length, targets not in the vocabulary, or no mask to predict at.
        TraceError: both runs give the same metric, or a position out of range.
        ModelError: the model has no head.

    Example:
        ```python
        import workbench
        from workbench.analysis.patching import patch_pair

        model = workbench.load("novels-decoder")
        pair = patch_pair(model, "The boys at home", "The boy at home", " were", " was")
        print(pair.about)
        ```
    """
    model.require(Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, Kind.CLASSIFIER, verb="patching")
    measured = make_metric(model, target, contrast, metric)
    readings = [_read(model, text, target_text) for text in (clean, corrupted)]
    where = _stack(model, stack)
    _check_lengths(model, readings, where)
    place = None if model.kind is Kind.CLASSIFIER else _place(model, readings, position)
    if where is structure_of(model.model).main:
        check_stack(model)
    site = None if keep is None else as_site(keep)
    runs, values, kept = zip(*[_run(model, r, place, measured, site, where) for r in readings], strict=True)
    if values[0] == values[1]:
        raise TraceError(
            f"the {measured.about} is {values[0]:.4g} for both texts, so there is nothing to bring back; "
            "choose texts or targets that the model tells apart"
        )
    found = (
        {}
        if site is None
        else {(t, site, where): list(k.values()) for t, k in zip(_TEXTS, kept, strict=True)}
    )
    return PatchPair(
        model, readings[0], readings[1], measured, place, where, runs[0], runs[1], values[0], values[1], found
    )


_TEXTS = ("clean", "corrupted")


def _run(
    model: LoadedModel,
    reading: Reading,
    place: int | None,
    metric: PatchingMetric,
    site: PatchSite | None,
    stack: Stack,
) -> tuple[StackRun, float, dict[int, Tensor]]:
    """The pass that patched ones are compared with, under the same attention; its metric; what is kept of it."""
    kept, edits = ({}, []) if site is None else _keeping(model, site, stack)
    with torch.no_grad(), intervene(model, *edits):
        if place is None:
            run = run_stack(model, reading.inputs)
            return run, float(metric(run.logits)), kept
        only = torch.tensor([place], device=model.device)
        with project_only(model.model, only, (1, len(reading))) as projected:
            run = run_stack(model, reading.inputs)
            return run, float(metric(projected.chosen(run.logits))), kept


def _read(model: LoadedModel, text: Text, target_text: Text | None) -> Reading:
    """The text; the decoder of an encoder-decoder has said nothing where ``target_text`` is not given."""
    if model.kind is Kind.SEQ2SEQ and target_text is None:
        target_text = NOTHING
    return read_text(model, text, target_text)


def _stack(model: LoadedModel, name: str | None) -> Stack:
    structure = structure_of(model.model)
    if name is None and model.kind is Kind.SEQ2SEQ:
        return structure.stack(Stack.ENCODER.value)
    return structure.stack(name)


def _check_lengths(model: LoadedModel, readings: Sequence[Reading], stack: Stack) -> None:
    in_source = model.kind is Kind.SEQ2SEQ and stack is Stack.ENCODER
    sizes = [len(r.source) if in_source and r.source else len(r) for r in readings]
    if sizes[0] != sizes[1]:
        raise DataError(
            f"clean has {sizes[0]} tokens, corrupted {sizes[1]}: patching needs texts of equal length; exchange "
            "words for others of as many pieces (see: workbench tokenize)"
        )


def _place(model: LoadedModel, readings: Sequence[Reading], position: int | None) -> int:
    length = len(readings[0])
    if position is not None:
        if not -length <= position < length:
            raise TraceError(f"position {position} is out of range: the text has {counted(length, 'token')}")
        return position % length
    if model.kind is not Kind.MASKED:
        return length - 1
    mask = model.mask_id
    masks = [[i for i, token in enumerate(r.alignment.ids) if token == mask] for r in readings]
    if len(masks[0]) != 1 or masks[0] != masks[1]:
        raise DataError(
            f"a masked model predicts at {model.tokenizer.mask_token}: write it once in both texts, at the same "
            f"place (found at {masks[0]} and {masks[1]}), or name a position"
        )
    return masks[0][0]
