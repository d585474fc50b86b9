"""Record what a model does with texts: ``workbench.trace``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench.errors import TraceError, did_you_mean
from workbench.models import Kind, LoadedModel, as_model
from workbench.models.batching import Padding, groups_of, padding_of
from workbench.models.dispatched import stack_layers
from workbench.records import takes_fields_of
from workbench.shapes import Array
from workbench.text import PromptFormat
from workbench.trace._trace import Record, Target, TextTrace, Trace, check_target, target_score
from workbench.trace.attention_hook import AttentionCall, Session, Stack, Watcher, active
from workbench.trace.decoder import TextPass, pass_inputs, text_passes
from workbench.trace.encoding import Encoded, Text, batches_of
from workbench.trace.observing import session_on
from workbench.trace.parts import on_output, parts_of
from workbench.trace.structure import Route, Structure, evaluating, stacks_of, structure_of, without_cache

__all__ = ["Recorder", "to_numpy", "trace"]


@takes_fields_of(PromptFormat)
def trace(
    model: LoadedModel | str,
    texts: str | Sequence[Text],
    record: Iterable[str] = (Record.ATTENTION,),
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    targets: Sequence[Text] | None = None,
    gradient_of: Target | None = None,
    max_length: int | None = None,
    batch_size: int = 8,
    **prompt: Any,
) -> Trace:
    """Run ``model`` on ``texts`` and keep what ``record`` names, on the CPU as NumPy arrays.

    Args:
        model: any loaded model, or a name as :func:`workbench.load` takes it.
        texts: a text, or several: texts, ``(first, second)`` pairs, or alignments of sentences that are split into
            words already.
        record: any of "attention", "hidden", "logits", "gradients", "queries_keys" (with values), "mlp".
        layers: attention layers to keep, from 0; weights of others are not even computed. All by default.
        heads: heads to keep, from 0; all by default.
        targets: what the decoder of an encoder-decoder reads; generated greedily where not given.
        gradient_of: for "gradients": which logit's log-probability is differentiated; see :class:`Target`.
        max_length: truncate texts to this many tokens; at most what the model reads. A warning says how many were.
        batch_size: texts per forward pass.
        **prompt: how the model reads the texts: fields of :class:`~workbench.text.PromptFormat`.

    Raises:
        TraceError: an unknown name in ``record``, a layer or head out of range, a model without attention.
        DataError: no text, or an empty one.

    Example:
        ```python
        import workbench

        traced = workbench.trace("novels-encoder", "The keys to the cabinet are here.")
        print(traced[0].attention.shape)  # (layer, head, query, key)
        ```
    """
    model, wanted = as_model(model, **prompt), _records(record)
    texts = [texts] if isinstance(texts, str) else texts
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
    attends = {Record.ATTENTION, Record.QUERIES_KEYS, Record.MLP} & wanted
    structure = structure_of(model.model) if attends else stacks_of(model.model)
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
    structure.check(structure.shown, tuple(layers or ()), tuple(heads or ()))

    def kept(numbers: Sequence[int] | None, count: int) -> tuple[int, ...]:
        return tuple(range(count)) if numbers is None else tuple(n for n in numbers if n < count)

    chosen = {stack: kept(layers, count) for stack, count in structure.layers.items()}
    if wanted & {Record.QUERIES_KEYS, Record.MLP}:
        structure.check_places(structure.main, chosen[structure.main])
    return RecordingPlan(
        wanted,
        chosen,
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
    if Record.LOGITS in record and model.kind is Kind.DETECTOR:
        raise TraceError(
            f"{model.name} gives one number a token, no logits of a vocabulary: workbench.scoring.detect_replaced "
            "has them; record={'hidden'} works"
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
        truncated=source.truncated,
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
    return None if not layers else to_numpy(stack_layers([layer[row, :length] for layer in layers]))


class Recorder(Watcher):
    """A watcher that keeps the chosen layers and heads of one batch."""

    def __init__(
        self,
        record: frozenset[Record],
        layers: Mapping[Stack, tuple[int, ...]],
        heads: Mapping[Stack, tuple[int, ...]],
        main: Stack,
    ) -> None:
        self.record = record
        self._layers = layers
        self._heads = heads
        self._main = main
        self._weights: dict[Stack, dict[int, Tensor]] = {}
        self._projected: dict[str, dict[int, Tensor]] = {}
        self._mlp: dict[int, Tensor] = {}
        self._free: set[Stack] = set()  # stacks whose rows need not sum to one

    def wants(self, stack: Stack, layer: int) -> bool:
        """Whether this layer is looked at."""
        needed = Record.ATTENTION in self.record or (
            Record.QUERIES_KEYS in self.record and stack is self._main
        )
        return needed and layer in self._layers[stack]

    def on_weights(self, call: AttentionCall) -> Tensor:
        """Look at the weights."""
        if Record.ATTENTION in self.record:
            kept = call.weights.detach()[:, list(self._heads[call.stack])].cpu()
            self._weights.setdefault(call.stack, {})[call.layer] = kept
            if not getattr(call.module, "rows_sum_to_one", True):
                self._free.add(call.stack)
        if Record.QUERIES_KEYS in self.record and call.stack is self._main:
            self._keep_projected(call)
        return call.weights

    def on_heads(self, call: AttentionCall, heads: Tensor) -> Tensor:
        """Go on with what came."""
        return heads

    def _keep_projected(self, call: AttentionCall) -> None:
        if call.query is None or call.key is None or call.value is None:
            return
        compares = getattr(call.module, "compares", True)  # a Synthesizer has neither queries nor keys
        shared = call.query.shape[1] // call.key.shape[1]  # query heads that share a key head
        key_heads = sorted({head // shared for head in self._heads[call.stack]})
        for name, tensor, heads in (
            ("query", call.query, list(self._heads[call.stack])),
            ("key", call.key, key_heads),
            ("value", call.value, key_heads),
        ):
            if compares or name == "value":
                self._projected.setdefault(name, {})[call.layer] = tensor.detach()[:, heads].cpu()

    @contextmanager
    def hooks(self, model: Any, session: Session) -> Iterator[None]:
        """Watch the feed-forward parts too, if they are to be recorded."""
        if Record.MLP not in self.record:
            yield
            return
        modules = parts_of(model).mlp_outputs[self._main]
        if not modules:
            raise TraceError(f"no feed-forward part was found in {type(model).__name__}")

        def keep(output: Tensor) -> None:
            assert output.ndim == 3, f"feed-forward output (B, T, D), got {tuple(output.shape)}"
            if session in active():
                layer = session.next_layer(self._main, "mlp")
                if layer in self._layers[self._main]:
                    self._mlp[layer] = output.detach().cpu()

        with ExitStack() as stack:
            for name in dict.fromkeys(modules):
                stack.enter_context(on_output(model.get_submodule(name), keep))
            yield

    def attention(self, stack: Stack, row: int, queries: int, keys: int) -> Array | None:
        """(L, H, Q, K) of one text, or ``None``."""
        found = self._weights.get(stack)
        if not found:
            return None
        first = next(iter(found.values()))
        out = np.empty((len(self._layers[stack]), first.shape[1], queries, keys), dtype=_dtype(first))
        for i, layer in enumerate(self._layers[stack]):
            weights = found[layer][row]
            if stack not in self._free and float(weights.sum(-1).max()) > 1.01:
                raise TraceError(
                    "the model returns attention scores, not weights: their rows do not sum to one"
                )
            if weights.shape[-1] < keys or weights.shape[-2] < queries:
                raise TraceError(
                    f"attention of {tuple(weights.shape[-2:])} is not over all {queries} x {keys} tokens: the "
                    "model attends within windows or pools tokens; record={'hidden'} works"
                )
            out[i] = weights[:, :queries, :keys].float().numpy()
        return out

    def projected(self, name: str, row: int, length: int) -> Array | None:
        """Queries, keys or values of one text (L, heads, T, d), or ``None``."""
        found = self._projected.get(name)
        if not found:
            return None
        layers = [found[layer][row, :, :length] for layer in self._layers[self._main]]
        return to_numpy(stack_layers(layers))

    def mlp(self, row: int, length: int) -> Array | None:
        """What the feed-forward parts added to one text (L, T, D), or ``None``."""
        if not self._mlp:
            return None
        return to_numpy(
            stack_layers([self._mlp[n][row, :length].reshape(length, -1) for n in sorted(self._mlp)])
        )


def to_numpy(tensor: Tensor) -> Array:
    """A copy on the CPU, in float32 where NumPy has no such type."""
    tensor = tensor.detach().cpu()
    array: Array = (
        tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.clone()
    ).numpy()
    return array


def _dtype(tensor: Tensor) -> type[np.floating[Any]]:
    return np.float64 if tensor.dtype == torch.float64 else np.float32
