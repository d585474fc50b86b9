"""Greedy generation, token by token: what was likely at each step, and what the model attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from workbench.errors import ConfigError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.shapes import Array
from workbench.text import align
from workbench.trace import Record, Stack, trace
from workbench.trace.decoder import as_read, decoder_prefix, generation_start
from workbench.trace.encoding import encode_all, inputs_of

__all__ = ["Generation", "GenerationStep", "generate_steps"]


@dataclass(frozen=True, eq=False)
class GenerationStep:
    """One generated token. ``attention`` is that of the place which predicts it, over the tokens ``read`` so far."""

    token: str
    candidates: tuple[tuple[str, float], ...]  # likeliest tokens with their probabilities, best first
    read: tuple[str, ...]
    attention: Float[Array, "layer head key"]


@dataclass(frozen=True, eq=False)
class Generation:
    """What a model wrote after ``text``. An encoder-decoder's steps attend to the source (cross-attention)."""

    model: str
    text: str
    generated: str
    attention_of: str  # "self" or "cross"
    steps: tuple[GenerationStep, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The generated tokens."""
        return tuple(step.token for step in self.steps)


def generate_steps(model: LoadedModel, text: str, count: int = 12, *, top: int = 8) -> Generation:
    """Write up to ``count`` tokens greedily after ``text`` (or, for an encoder-decoder, from it).

    Written tokens are read again in one pass, from which candidates and attention of every step come; the end of
    text ends it. Raises :class:`~workbench.errors.ModelError` for a model that does not write,
    :class:`~workbench.errors.ConfigError` for a ``count`` or ``top`` below 1, and
    :class:`~workbench.errors.TraceError` where text and ``count`` do not fit into the model.
    """
    model.require(Kind.CAUSAL, Kind.SEQ2SEQ, verb="generation")
    if min(count, top) < 1:
        raise ConfigError(f"count and top are {count} and {top}; allowed: 1 or more")
    if model.kind is Kind.SEQ2SEQ:
        return _from_source(model, text, count, top)
    begun = align(text, model.tokenizer)
    if len(begun) == 0 or len(begun) + count > model.max_length:
        raise TraceError(
            f"{len(begun)} tokens and {count} more do not fit: {model.name} reads 1 to {model.max_length:,}"
        )
    inputs = torch.tensor([list(begun.ids)], device=model.device)
    with model.lock, torch.inference_mode():
        found = model.model.generate(
            input_ids=inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=count,
            do_sample=False,
            num_beams=1,
            pad_token_id=model.tokenizer.pad_token_id or 0,
        )[0].tolist()
    whole = as_read(model, found)
    traced = trace(model, [whole], {Record.ATTENTION, Record.LOGITS})[0]
    steps = _steps(
        model, whole.tokens, range(len(begun), len(found)), traced.attention, traced.get("logits"), top
    )
    return Generation(model.name, text, str(model.tokenizer.decode(found[len(begun) :])), "self", steps)


def _from_source(model: LoadedModel, text: str, count: int, top: int) -> Generation:
    inputs = inputs_of(model, encode_all(model, [text]))
    with model.lock, torch.inference_mode():
        # without a cache, which transformers sizes wrongly where encoder and decoder differ in depth
        found = model.model.generate(
            **inputs,
            **generation_start(model, 1),
            max_new_tokens=count,
            do_sample=False,
            num_beams=1,
            use_cache=False,
        )[0].tolist()
    prefix = len(decoder_prefix(model))
    target = as_read(model, found[prefix:])  # the prefix is put in front again
    traced = trace(model, [text], {Record.ATTENTION, Record.LOGITS}, targets=[target])[0]
    assert traced.source is not None
    tokens = (*traced.tokens[:prefix], *target.tokens)  # an end of text is not read again, but was predicted
    cross = traced.get(f"{Stack.CROSS}_attention")
    steps = _steps(
        model,
        tokens,
        range(prefix, len(tokens)),
        cross,
        traced.get("logits"),
        top,
        source=traced.source.tokens,
    )
    generated = str(model.tokenizer.decode(found[prefix:], skip_special_tokens=True))
    return Generation(model.name, text, generated, "cross", steps)


def _steps(
    model: LoadedModel,
    tokens: Sequence[str],
    places: range,
    attention: Float[Array, "layer head query key"],
    logits: Float[Array, "token vocabulary"],
    top: int,
    source: Sequence[str] | None = None,
) -> tuple[GenerationStep, ...]:
    """A step for each place of ``places``, which the place before it predicts."""
    steps = []
    for place in places:
        scores = torch.from_numpy(np.asarray(logits[place - 1], np.float32)).softmax(-1)
        best = scores.topk(min(top, len(scores)))
        names = model.tokenizer.convert_ids_to_tokens(best.indices.tolist())
        read = tuple(source if source is not None else tokens[:place])
        steps.append(
            GenerationStep(
                token=tokens[place],
                candidates=tuple(zip(map(str, names), best.values.tolist(), strict=True)),
                read=read,
                attention=attention[:, :, place - 1, : len(read)],
            )
        )
    return tuple(steps)
