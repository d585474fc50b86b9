"""Record what a model does with texts: ``workbench.trace``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.errors import TraceError, did_you_mean
from workbench.models import Kind, LoadedModel
from workbench.models.batching import Padding, groups_of, padding_of
from workbench.shapes import Array
from workbench.trace._recorder import Recorder, to_numpy
from workbench.trace._targets import Target, check_target, target_score
from workbench.trace._trace import Record, TextTrace, Trace
from workbench.trace.attention_hook import Session, Stack
from workbench.trace.encoding import Encoded, Text, batches_of
from workbench.trace.observing import session_on
from workbench.trace.passes import TextPass, pass_inputs, text_passes
from workbench.trace.structure import Route, Structure, evaluating, structure_of, without_cache

__all__ = ["trace"]


def trace(
    model: LoadedModel,
    texts: Sequence[Text],
    record: Iterable[str] = (Record.ATTENTION,),
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    targets: Sequence[Text] | None = None,
    gradient_of: Target | None = None,
    max_length: int | None = None,
    batch_size: int = 8,
) -> Trace:
    """Run ``model`` on ``texts`` and keep what ``record`` names, on the CPU as NumPy arrays.

    Args:
        model: any loaded model.
        texts: texts, ``(first, second)`` pairs, or alignments of sentences that are split into words already.
        record: any of "attention", "hidden", "logits", "gradients", "queries_keys" (with values), "mlp".
        layers: attention layers to keep, from 0; weights of others are not even computed. All by default.
        heads: heads to keep, from 0; all by default.
        targets: what the decoder of an encoder-decoder reads; generated greedily where not given.
        gradient_of: for "gradients": which logit's log-probability is differentiated; see :class:`Target`.
        max_length: cut texts to this many tokens; at most what the model reads. Cutting is counted and said.
        batch_size: texts per forward pass.

    Raises:
        TraceError: an unknown name in ``record``, a layer or head out of range, a model without attention.
        DataError: no text, or an empty one.
    """
    wanted = _records(record)
    with model.lock:
        structure = _structure(model, wanted)
        plan = _plan(structure, wanted, layers, heads)
        passes = text_passes(model, texts, targets, max_length)
        if Record.GRADIENTS in wanted:
            check_target(model, gradient_of)
        done: dict[int, TextTrace] = {}
        for rows in _batches(model, [one.source for one in passes], batch_size, wanted):
            batch = [passes[i] for i in rows]
            done.update(zip(rows, _run(model, structure, plan, batch, gradient_of), strict=True))
    texts_done = tuple(done[i] for i in range(len(passes)))
    return Trace(model.name, model.kind, structure.main, texts_done, plan.record, plan.layers, plan.heads)


def _batches(
    model: LoadedModel, encoded: Sequence[Encoded], size: int, wanted: frozenset[Record]
) -> Iterator[list[int]]:
    """Places of texts that go together; where a classification head minds padding, those of one length."""
    if model.kind is not Kind.CLASSIFIER or not {Record.LOGITS, Record.GRADIENTS} & wanted:
        yield from batches_of(model, encoded, size)
        return
    padding = padding_of(model)
    padding = Padding.EQUAL if padding is Padding.LEFT else padding  # traces are padded on the right
    for rows in batches_of(model, encoded, size):
        for group in groups_of(model, [encoded[i].alignment.ids for i in rows], padding):
            yield [rows[i] for i in group]


@dataclass(frozen=True)
class RecordingPlan:
    """What to keep of a pass."""

    record: frozenset[Record]
    layers: dict[Stack, tuple[int, ...]]
    heads: dict[Stack, tuple[int, ...]]


def _records(record: Iterable[str]) -> frozenset[Record]:
    names = {record} if isinstance(record, str) else set(record)
    for name in names - set(Record):
        raise TraceError(f"cannot record {name!r}; {did_you_mean(str(name), [r.value for r in Record])}")
    if not names:
        raise TraceError(f"nothing to record; allowed: {', '.join(Record)}")
    return frozenset(map(Record, names))


def _structure(model: LoadedModel, wanted: frozenset[Record]) -> Structure:
    structure = structure_of(model.model)
    if Record.QUERIES_KEYS in wanted and structure.route is Route.OUTPUTS:
        raise TraceError(
            f"{type(model.model).__name__} computes attention outside transformers' attention interface, "
            "so its queries and keys cannot be recorded; attention can: record={'attention'}"
        )
    return structure


def _plan(
    structure: Structure,
    wanted: frozenset[Record],
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
) -> RecordingPlan:
    structure.check(structure.main, tuple(layers or ()), tuple(heads or ()))

    def kept(numbers: Sequence[int] | None, count: int) -> tuple[int, ...]:
        return tuple(range(count)) if numbers is None else tuple(n for n in numbers if n < count)

    return RecordingPlan(
        wanted,
        {stack: kept(layers, count) for stack, count in structure.layers.items()},
        {stack: kept(heads, count) for stack, count in structure.heads.items()},
    )


def _run(
    model: LoadedModel,
    structure: Structure,
    plan: RecordingPlan,
    batch: list[TextPass],
    gradient_of: Target | None,
) -> list[TextTrace]:
    recorder = Recorder(plan.record, plan.layers, plan.heads, structure.main)
    inputs = pass_inputs(model, batch)
    gradients = Record.GRADIENTS in plan.record
    with ExitStack() as stack:
        stack.enter_context(evaluating(model.model))
        session = Session(structure.sites, (recorder,))
        stack.enter_context(session_on(model.model, session))
        stack.enter_context(recorder.hooks(model.model, session))
        stack.enter_context(torch.set_grad_enabled(gradients))
        called = _called(model, plan.record)
        hidden = bool({Record.HIDDEN, Record.GRADIENTS} & plan.record)
        output = called(**inputs, **without_cache(called), output_hidden_states=hidden)
    gradient = _gradients(model, output, batch, gradient_of) if gradients else None
    return [_text_trace(recorder, output, gradient, batch, row, model) for row in range(len(batch))]


def _called(model: LoadedModel, record: frozenset[Record]) -> Any:
    """The whole model, or the part below its head where nobody wants logits."""
    needs_head = {Record.LOGITS, Record.GRADIENTS} & record
    if Record.LOGITS in record and model.kind is Kind.ENCODER:
        raise TraceError(
            f"{model.name} is an encoder without a head, so it has no logits; record={{'hidden'}} works"
        )
    return model.model if needs_head or model.model.config.is_encoder_decoder else model.model.base_model


def _hidden(output: Any, encoder: bool) -> tuple[Tensor, ...] | None:
    names = ("encoder_hidden_states",) if encoder else ("decoder_hidden_states", "hidden_states")
    return next((value for name in names if (value := getattr(output, name, None))), None)


def _gradients(
    model: LoadedModel, output: Any, batch: list[TextPass], gradient_of: Target | None
) -> tuple[Tensor, ...]:
    hidden = _hidden(output, encoder=False)
    if not hidden:
        raise TraceError(f"{type(model.model).__name__} returns no hidden states to differentiate by")
    score = target_score(model, output.logits, [one.read.alignment for one in batch], gradient_of)
    found = torch.autograd.grad(score, hidden, allow_unused=True)
    return tuple(torch.zeros_like(h) if g is None else g for h, g in zip(hidden, found, strict=True))


def _text_trace(
    recorder: Recorder,
    output: Any,
    gradient: tuple[Tensor, ...] | None,
    batch: list[TextPass],
    row: int,
    model: LoadedModel,
) -> TextTrace:
    read, source = batch[row].read, batch[row].source
    length, source_length = len(read.alignment), len(source.alignment)
    seq2seq = model.model.config.is_encoder_decoder
    keep_hidden = Record.HIDDEN in recorder.record
    logits = output.logits[row] if Record.LOGITS in recorder.record else None
    if logits is not None and model.kind is not Kind.CLASSIFIER:
        logits = logits[:length]
    return TextTrace(
        alignment=read.alignment,
        segment_ids=read.segment_ids,
        cut=source.cut,
        source=source.alignment if seq2seq else None,
        encoder_attention=recorder.attention(Stack.ENCODER, row, source_length, source_length),
        decoder_attention=recorder.attention(Stack.DECODER, row, length, length),
        cross_attention=recorder.attention(Stack.CROSS, row, length, source_length),
        hidden=_stacked(_hidden(output, encoder=False), row, length) if keep_hidden else None,
        encoder_hidden=_stacked(_hidden(output, encoder=True), row, source_length) if keep_hidden else None,
        logits=None if logits is None else to_numpy(logits),
        gradients=_stacked(gradient, row, length),
        queries=recorder.projected("query", row, length),
        keys=recorder.projected("key", row, length),
        values=recorder.projected("value", row, length),
        mlp=recorder.mlp(row, length),
    )


def _stacked(layers: tuple[Tensor, ...] | None, row: int, length: int) -> Array | None:
    """(B, T, D) of each layer to one text's (L, T, D)."""
    return None if not layers else to_numpy(torch.stack([layer[row, :length] for layer in layers]))
