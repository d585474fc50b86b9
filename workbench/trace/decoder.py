"""What the decoder of an encoder-decoder reads: the tokens that begin every target, and a target behind them.

Scores, traces, explanations, lenses, patching and generation all begin a decoder's text here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from workbench.characters import check_text
from workbench.errors import DataError, ModelError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.text import Alignment, align
from workbench.trace.attention_hook import Stack
from workbench.trace.encoding import Encoded, Text, cut_to, encode_all, inputs_of, say_cut

__all__ = [
    "NOTHING",
    "TextPass",
    "as_read",
    "decoder_batch",
    "decoder_prefix",
    "encode_targets",
    "end_ids",
    "generated_targets",
    "generation_start",
    "pass_inputs",
    "prompt_ids",
    "read_by",
    "started",
    "text_passes",
    "token_mask",
]

_MAX_GENERATED = 64


NOTHING = Alignment("", (), (), (), (), ())


"""The empty target: a decoder reads its prefix alone."""


def decoder_prefix(model: LoadedModel) -> tuple[int, ...]:
    """Ids that a decoder reads before the first token of any target: conditioned on, never scored.

    The start token; then the token that generation is made to begin with (``forced_bos_token_id``), or the target
    language's where the tokenizer has one set (``tgt_lang``). That stands behind the start token (mBART-50, M2M100,
    NLLB) or in its place (mBART, PLBart), as the tokenizer itself writes targets.

    Raises :class:`~workbench.errors.ModelError` if the configuration has no token to start with.
    """
    language, replaces_start = _target_language(model.tokenizer)
    if language is not None and replaces_start:
        return (language,)
    start = _configured(model, "decoder_start_token_id", "bos_token_id", "pad_token_id")
    if start is None:
        raise ModelError(
            f"{model.name}: neither its configuration nor its generation configuration has a decoder_start_token_id; "
            "add it to config.json"
        )
    second = _configured(model, "forced_bos_token_id") if language is None else language
    return (start,) if second is None else (start, second)


def _configured(model: LoadedModel, *names: str) -> int | None:
    """The first of these settings that is there; the generation configuration comes before the model's."""
    places = (getattr(model.model, "generation_config", None), model.config)
    found = (getattr(place, name, None) for name in names for place in places)
    return next((int(number) for number in found if isinstance(number, int)), None)


def _target_language(tokenizer: Any) -> tuple[int | None, bool]:
    """The id of the language that targets are marked with, and whether a decoder starts with it.

    A tokenizer that writes it behind the text (``X </s> ro_RO``) belongs to a model that was trained with the last
    token of a target moved to the front.
    """
    if not getattr(tokenizer, "tgt_lang", None):
        return None, False
    own = tokenizer("a", add_special_tokens=False).input_ids
    framed = list(tokenizer(text_target="a").input_ids)
    usual = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, *own}
    added = [token for token in framed if token not in usual]
    if not added:
        return None, False
    return int(added[0]), framed.index(added[0]) > framed.index(own[0])


def encode_targets(
    model: LoadedModel, targets: Sequence[Text], max_length: int | None = None
) -> list[Encoded]:
    """Targets as a decoder reads them behind its prefix: without the special tokens of a source.

    Alignments are taken as they are. Raises :class:`~workbench.errors.DataError` for an empty text or a pair.
    """
    longest = model.max_target_length
    limit = min(max_length or longest, longest) - len(decoder_prefix(model))
    return [cut_to(_encode_target(model, target), limit) for target in targets]


def _encode_target(model: LoadedModel, target: Text) -> Encoded:
    if isinstance(target, tuple):
        raise DataError(f"a target is one text, got the pair {target!r}")
    if isinstance(target, str):
        encode_all(model, [target])  # refuses what is empty
        target = align(target, model.tokenizer, add_special_tokens=False)
    return Encoded(target, (0,) * len(target))


def started(model: LoadedModel, target: Encoded) -> Encoded:
    """``target`` as a decoder reads it: behind the prefix, and without the end that it predicts."""
    prefix, old = decoder_prefix(model), target.alignment
    end = len(old) - (old.ids[-1:] == (model.tokenizer.eos_token_id,))
    alignment = replace(
        old,
        tokens=(*map(str, model.tokenizer.convert_ids_to_tokens(list(prefix))), *old.tokens[:end]),
        ids=(*prefix, *old.ids[:end]),
        offsets=(*((0, 0),) * len(prefix), *old.offsets[:end]),
        word_ids=(*(None,) * len(prefix), *old.word_ids[:end]),
    )
    return Encoded(alignment, (0,) * len(alignment), target.truncated)


def decoder_batch(model: LoadedModel, read: Sequence[Encoded]) -> dict[str, Tensor]:
    """What the decoder reads, padded on the right."""
    inputs = inputs_of(model, read)
    return {"decoder_input_ids": inputs["input_ids"], "decoder_attention_mask": inputs["attention_mask"]}


def generation_start(model: LoadedModel, rows: int) -> dict[str, Any]:
    """Arguments of ``generate`` that begin ``rows`` texts with the decoder's prefix; none for other models."""
    if not model.config.is_encoder_decoder:
        return {}
    prefix = decoder_prefix(model)
    return {
        "decoder_input_ids": torch.tensor([prefix] * rows, device=model.device),
        "decoder_start_token_id": prefix[0],
        "forced_bos_token_id": None,  # it stands in the prefix
    }


def prompt_ids(model: LoadedModel, text: str) -> list[int]:
    """Ids of a text that ``generate`` goes on from, with the special tokens that the tokenizer adds.

    A decoder's prompt loses the end of text that some tokenizers add; of an empty one its BOS (or EOS) is left. In
    chat format it is the message and the generation prompt.
    """
    if model.prompt.chat:
        return list(model.read(text).ids)
    tokenizer = model.tokenizer
    ids: list[int] = tokenizer(check_text(text, f"text {text[:40]!r}"), verbose=False).input_ids
    if model.kind is Kind.CAUSAL and ids[-1:] == [tokenizer.eos_token_id]:
        ids = ids[:-1]
    # the text may begin with a BOS of its own, as a chat template writes it
    if ids[:2] == [tokenizer.bos_token_id] * 2:
        ids = ids[1:]
    first = (token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id, 0) if token is not None)
    return ids or [next(first)]


def end_ids(model: LoadedModel) -> set[int]:
    """Ids that end a generated text: the tokenizer's EOS, and those of the generation configuration."""
    ends = model.model.generation_config.eos_token_id
    return {model.tokenizer.eos_token_id, *(ends if isinstance(ends, list | tuple) else [ends])} - {None}


def generated_targets(model: LoadedModel, sources: Sequence[Encoded]) -> list[Encoded]:
    """What the model generates greedily for each source, at most 64 tokens, without the end of text."""
    prefix = len(decoder_prefix(model))
    count = min(_MAX_GENERATED, model.max_target_length - prefix)
    targets = []
    for source in sources:
        with torch.no_grad():
            # without a cache, which transformers sizes wrongly where encoder and decoder differ in depth
            ids = model.model.generate(
                **inputs_of(model, [source]),
                **generation_start(model, 1),
                max_new_tokens=count,
                do_sample=False,
                num_beams=1,
                use_cache=False,
            )[0, prefix:].tolist()
        end = model.tokenizer.eos_token_id
        alignment = _aligned(model, ids[: ids.index(end)] if end in ids else ids)
        targets.append(Encoded(alignment, (0,) * len(alignment)))
    return targets


def _aligned(model: LoadedModel, ids: Sequence[int]) -> Alignment:
    """Ids with their words, if the tokenizer reads its own text as the same ids again."""
    for skip in (True, False):
        text = model.tokenizer.decode(list(ids), skip_special_tokens=skip)
        alignment = align(text, model.tokenizer, add_special_tokens=False)
        if alignment.ids == tuple(ids):
            return alignment
    return as_read(model, ids)


def as_read(model: LoadedModel, ids: Sequence[int]) -> Alignment:
    """Token ids as they are, without words: decoding and reading again could split the text otherwise."""
    tokens = tuple(map(str, model.tokenizer.convert_ids_to_tokens(list(ids))))
    size = len(ids)
    return Alignment("", tokens, tuple(ids), ((0, 0),) * size, (), (None,) * size)


@dataclass(frozen=True)
class TextPass:
    """One text as a model reads it: what its encoder (or only stack) reads, and what its main stack reads.

    Both are the same without a decoder beside an encoder.
    """

    source: Encoded
    read: Encoded


def text_passes(
    model: LoadedModel,
    texts: Sequence[Text],
    targets: Sequence[Text] | None = None,
    max_length: int | None = None,
) -> list[TextPass]:
    """``texts`` as ``model`` reads them; ``targets`` are what a decoder reads, generated by default.

    Warns where texts do not fit. Raises :class:`~workbench.errors.DataError` for an empty text and
    :class:`TraceError` for targets without a decoder, or not one for each text.
    """
    sources = encode_all(model, texts, max_length)
    say_cut(sources, model)
    if not model.config.is_encoder_decoder:
        if targets is not None:
            raise TraceError(f"{model.name} has no decoder beside an encoder, so it takes no targets")
        return [TextPass(source, source) for source in sources]
    if targets is not None and len(targets) != len(sources):
        raise TraceError(f"{len(targets)} targets for {len(sources)} texts: give one for each")
    if targets is None and not model.model.can_generate():
        raise TraceError(
            f"{model.name} is an encoder-decoder that does not generate; say what its decoder reads"
        )
    with model.lock:
        found = (
            generated_targets(model, sources)
            if targets is None
            else encode_targets(model, targets, max_length)
        )
    return [TextPass(s, started(model, t)) for s, t in zip(sources, found, strict=True)]


def pass_inputs(model: LoadedModel, batch: Sequence[TextPass]) -> dict[str, Tensor]:
    """Tensors to call the model with, padded on the right."""
    inputs = inputs_of(model, [one.source for one in batch])
    if model.config.is_encoder_decoder:
        inputs.update(decoder_batch(model, [one.read for one in batch]))
    return inputs


def read_by(model: LoadedModel, stack: Stack, one: TextPass) -> Encoded:
    """What ``stack`` reads of a text."""
    return one.source if model.config.is_encoder_decoder and stack is Stack.ENCODER else one.read


def token_mask(model: LoadedModel, stack: Stack, inputs: dict[str, Tensor]) -> Tensor:
    """1 where ``stack`` reads a token of :func:`pass_inputs`, 0 where it reads padding: (B, T)."""
    beside = model.config.is_encoder_decoder and stack is not Stack.ENCODER
    return inputs["decoder_attention_mask" if beside else "attention_mask"]
