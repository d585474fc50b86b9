"""From a model and a text to any of the attention views: what the command line and the dashboard both call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from workbench.analysis.alignment_error import Step
from workbench.choices import as_members
from workbench.errors import ConfigError, TraceError
from workbench.figures._maps import MAX_TOKENS
from workbench.figures._view import View
from workbench.figures.attention_views import alignment_view, head_view, model_view
from workbench.figures.neuron import neuron_view
from workbench.models import LoadedModel
from workbench.records import settings_of
from workbench.shapes import Array
from workbench.trace import Record, Stack, Text, TextTrace, Trace, structure_of, trace
from workbench.trace.encoding import encode_all

__all__ = ["ViewKind", "ViewOptions", "trace_for", "trace_view", "view_of"]

MAX_BYTES = 2**30
"""Most bytes of attention that one view is traced for."""


class ViewKind(StrEnum):
    """The views of attention."""

    HEAD = "head"
    MODEL = "model"
    NEURON = "neuron"
    ALIGNMENT = "alignment"


@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """What of a text's attention is shown. ``None`` leaves the choice to the view.

    ``layer`` and ``heads`` are shown first; ``include_layers`` are the only ones in the view. Words, sinks and
    ``display_mode`` as in :func:`~workbench.figures.head_view`. ``step`` is of the alignment view: a row has the token
    that its step "predicts", whose source it shows, or the one that it "reads", one earlier.
    """

    kind: ViewKind = ViewKind.HEAD
    layer: int | None = None
    heads: tuple[int, ...] | None = None
    include_layers: tuple[int, ...] | None = None
    merge_words: bool = False
    hide_sinks: bool = False
    step: Step = Step.PREDICTS
    display_mode: str = "auto"

    def __post_init__(self) -> None:
        as_members(self)


def trace_for(model: LoadedModel, text: Text, options: ViewOptions, *, target: str | None = None) -> Trace:
    """Trace one text (or pair) as far as ``options`` needs it; an encoder-decoder generates a missing ``target``.

    Raises:
        ConfigError: more tokens than a view takes, or attention of more than 1 GiB; nothing is run then.
        TraceError: the model has no such attention, or a layer is out of range.
        DataError: an empty text.
    """
    structure = structure_of(model.model)
    if options.kind is ViewKind.ALIGNMENT and Stack.CROSS not in structure.layers:
        raise TraceError(
            f"the alignment view shows attention from a decoder to an encoder, and {model.name} "
            f"({model.kind}) has none; use the head or model view"
        )
    if target is not None and not model.config.is_encoder_decoder:
        raise TraceError(
            f"a target is for encoder-decoders; {model.name} is a {model.kind} model: leave it out"
        )
    texts = [text] if target is None else [text, target]
    for encoded in encode_all(model, texts):
        _check_size(
            len(encoded.alignment), encoded.truncated, _maps(structure.layers, structure.heads, options)
        )
    return trace(
        model,
        [text],
        {Record.ATTENTION} | ({Record.QUERIES_KEYS} if options.kind is ViewKind.NEURON else set()),
        layers=options.include_layers,
        targets=None if target is None else [target],
    )


def view_of(traced: Trace, options: ViewOptions, index: int = 0) -> View:
    """The view of one text of a trace that :func:`trace_for`, or :func:`~workbench.trace`, made.

    Raises:
        TraceError: the trace lacks what the view shows, or a layer or head is out of range.
        ConfigError: more tokens than a view takes.
    """
    recorded = {n for numbers in traced.layers.values() for n in numbers}
    if options.include_layers is None and recorded != set(range(len(recorded))):
        options = replace(options, include_layers=tuple(sorted(recorded)))
    return _DRAWN[options.kind](_Traced(traced, traced[index], options))


def trace_view(traced: Trace, *, text: int = 0, **options: Any) -> View:
    """The attention of one text of a trace, head by head or as ``options``, the fields of :class:`ViewOptions`, say."""
    return view_of(traced, settings_of(ViewOptions, None, options), text)


def _maps(layers: Mapping[Stack, int], heads: Mapping[Stack, int], options: ViewOptions) -> int:
    """Number of attention matrices that are recorded."""
    chosen = options.include_layers
    return sum(
        heads[stack] * (count if chosen is None else sum(0 <= n < count for n in chosen))
        for stack, count in layers.items()
    )


def _check_size(tokens: int, truncated: int, maps: int) -> None:
    if tokens > MAX_TOKENS:
        raise ConfigError(
            f"{tokens + truncated:,} tokens are too many for one view, which takes at most {MAX_TOKENS:,}; shorten "
            "the text, or measure a long one with: workbench attend MODEL --corpus FILE"
        )
    size = 4 * maps * tokens**2
    if size > MAX_BYTES:
        raise ConfigError(
            f"{maps} attention maps of {tokens:,} tokens take {size / 2**30:.1f} GiB, and a view takes "
            f"{MAX_BYTES / 2**30:.0f}; choose layers with include_layers (--include-layers 0,1), or shorten the text"
        )


@dataclass(frozen=True)
class _Traced:
    """A traced text and what to show of it, in the arguments of the view functions."""

    trace: Trace
    text: TextTrace
    options: ViewOptions

    def title(self, what: str) -> str:
        """A heading: what is shown, of which model."""
        return f"{what} · {Path(self.trace.model).name}"

    @property
    def recorded_heads(self) -> tuple[int, ...] | None:
        """The heads that were recorded, where those are not all up to the last one."""
        heads = max(self.trace.heads.values(), key=len, default=())
        return None if heads == tuple(range(len(heads))) else heads

    def layers(self, stack: Stack, array: Array) -> Sequence[Array | None]:
        """One entry per layer of the model up to the last recorded, ``None`` where a layer was not.

        A head that was not recorded is NaN; raises :class:`~workbench.errors.TraceError` where a view shows all heads.
        """
        numbers = self.trace.layers[stack]
        if (heads := self.recorded_heads) is not None:
            if self.options.kind not in (ViewKind.HEAD, ViewKind.MODEL):
                raise TraceError(
                    f"heads {heads} alone were recorded; for the {self.options.kind} view trace without heads="
                )
            whole = np.full((array.shape[0], max(heads) + 1, *array.shape[2:]), np.nan, array.dtype)
            whole[:, list(heads)] = array
            array = whole
        return [
            array[numbers.index(n)] if n in numbers else None for n in range(max(numbers, default=-1) + 1)
        ]

    @property
    def is_signed(self) -> bool:
        """Whether weights are no distributions, which a trace holds only where they are none by design."""
        text = self.text
        has_heads = [stack for stack in Stack if self.trace.heads.get(stack) != ()]
        maps = (
            [text.attention]
            if text.source is None
            else [text.get(f"{stack}_attention") for stack in has_heads]
        )
        return any(float(part.min()) < 0 or float(part.max()) > 1.001 for part in maps)

    def attention(self) -> dict[str, Any]:
        """Attention, tokens and words as the head and model views take them."""
        text, options = self.text, self.options
        shared = {
            "include_layers": options.include_layers,
            "include_heads": self.recorded_heads,
            "merge_words": options.merge_words,
            "hide_sinks": options.hide_sinks,
            "display_mode": options.display_mode,
        }
        shared["signed"] = self.is_signed
        if text.source is None:
            second = text.segment_ids.index(1) if 1 in text.segment_ids else None
            return shared | {
                "attention": self.layers(self.trace.main, text.attention),
                "tokens": text.tokens,
                "words": text.alignment.word_ids,
                "sentence_b_start": second,
            }
        kinds = {f"{stack}_attention": stack for stack in Stack if self.trace.heads.get(stack) != ()}
        return shared | {
            **{name: self.layers(stack, text.get(name)) for name, stack in kinds.items()},
            "encoder_tokens": text.source.tokens,
            "decoder_tokens": text.tokens,
            "encoder_words": text.source.word_ids,
            "decoder_words": text.alignment.word_ids,
        }


def _head(traced: _Traced) -> View:
    options = traced.options
    title = traced.title("Attention, head by head")
    return head_view(**traced.attention(), layer=options.layer, heads=options.heads, title=title)


def _model(traced: _Traced) -> View:
    title = traced.title("Attention of all layers and heads")
    arguments = traced.attention()
    if traced.options.heads is not None:
        arguments["include_heads"] = traced.options.heads
    return model_view(**arguments, title=title)


def _neuron(traced: _Traced) -> View:
    text, options, main = traced.text, traced.options, traced.trace.main
    if traced.is_signed:
        raise TraceError(
            f"the neuron view shows how a softmax over q · k comes about, and the attention of {traced.trace.model} is "
            "none; use the head or model view"
        )
    return neuron_view(
        traced.layers(main, text.get("queries")),
        traced.layers(main, text.get("keys")),
        traced.layers(main, text.attention),
        text.tokens,
        layer=options.layer,
        head=_first(options.heads),
        include_layers=options.include_layers,
        display_mode=options.display_mode,
        title=traced.title("Queries and keys, dimension by dimension"),
    )


def _alignment(traced: _Traced) -> View:
    text, options = traced.text, traced.options
    if text.source is None:
        raise TraceError(
            f"{traced.trace.model} has no attention from a decoder to an encoder; use another view"
        )
    first, steps = (0, len(text.tokens)) if options.step is Step.READS else (1, len(text.tokens) - 1)
    if not steps:
        raise TraceError("the target has one token, so no step predicts another; give a longer one: --target")
    return alignment_view(
        traced.layers(Stack.CROSS, text.get("cross_attention")[..., :steps, :]),
        text.source.tokens,
        text.tokens[first:],
        layer=options.layer,
        head=_first(options.heads),
        include_layers=options.include_layers,
        encoder_words=text.source.word_ids,
        decoder_words=text.alignment.word_ids[first:],
        merge_words=options.merge_words,
        hide_sinks=options.hide_sinks,
        display_mode=options.display_mode,
        title=traced.title(f"Alignment: source of the target token that each step {options.step}"),
    )


def _first(heads: tuple[int, ...] | None) -> int | None:
    return heads[0] if heads else None


_DRAWN: dict[ViewKind, Callable[[_Traced], View]] = {
    ViewKind.HEAD: _head,
    ViewKind.MODEL: _model,
    ViewKind.NEURON: _neuron,
    ViewKind.ALIGNMENT: _alignment,
}
