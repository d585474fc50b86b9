"""From what a user names ("are", a class, a word in a blank) to the entries of a model's output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from workbench.analysis.saliency.attribution_target import (
    AttributionTarget,
    Output,
    TargetEntry,
    TargetInput,
    TargetSum,
)
from workbench.choices import as_members
from workbench.errors import TaskError, did_you_mean
from workbench.models import Kind, LoadedModel
from workbench.models.problem import ProblemType, problem_of
from workbench.terminal import counted
from workbench.text import Alignment, Rendered, SpecialTokens, align, rendered_ids
from workbench.trace.decoder import decoder_prefix, generated_targets
from workbench.trace.encoding import Encoded, Text, encode_all, inputs_of
from workbench.trace.structure import call_model

__all__ = [
    "TargetName",
    "TargetRequest",
    "ask",
    "ask_generated",
    "class_number",
    "generated_ids",
    "named",
]

TargetName: TypeAlias = str | int | None


@dataclass(frozen=True)
class TargetRequest:
    """What a user asks: a target, optionally rather than ``contrast``, at a ``position``, in a form."""

    target: TargetName = None
    contrast: TargetName = None
    position: int | None = None
    output: Output | None = None

    def __post_init__(self) -> None:
        as_members(self)


def ask(model: LoadedModel, text: Text, asked: TargetRequest) -> AttributionTarget:
    """The question that ``asked`` means for this model and text.

    Raises :class:`TaskError` for a target that the model does not have, in one line that says what it has.
    """
    if model.kind is Kind.ENCODER:
        raise TaskError(
            f"{model.name} is an encoder without a head, so there is no prediction to explain; give it one with "
            "workbench finetune, or choose a causal, masked, seq2seq or classifier model"
        )
    if model.kind is Kind.DETECTOR:
        raise TaskError(
            f"{model.name} says which tokens were replaced, and predicts none that could be explained; choose a "
            "causal, masked, seq2seq or classifier model, or give its encoder a head with workbench finetune"
        )
    if asked.target is None and asked.contrast is not None:
        raise TaskError(f"contrast {asked.contrast!r} needs a target: what rather than {asked.contrast!r}?")
    makers = {
        Kind.CAUSAL: _causal,
        Kind.MASKED: _masked,
        Kind.SEQ2SEQ: _seq2seq,
        Kind.CLASSIFIER: _classifier,
    }
    return makers[model.kind](model, text, asked)


def generated_ids(model: LoadedModel, text: Text) -> tuple[int, ...]:
    """What a seq2seq model writes greedily for ``text``, without the decoder's prefix."""
    return generated_targets(model, [encode_all(model, [text])[0]])[0].alignment.ids


def _encoded(model: LoadedModel, text: Text) -> Encoded:
    return encode_all(model, [text])[0]


def _words_only(alignment: Alignment, without: Sequence[int] = ()) -> tuple[bool, ...]:
    """Tokens of the text itself: not those that the tokenizer added, nor those ``without``."""
    return tuple(w is not None and i not in without for i, w in enumerate(alignment.word_ids))


def _signed(pairs: Sequence[Any]) -> list[tuple[Any, float]]:
    return list(zip(pairs, (1.0, -1.0), strict=False))


def named(names: Sequence[str], form: Output) -> str:
    """``log p(are) - log p(is)``."""
    shape = {Output.LOGIT: "logit({})", Output.LOG_PROBABILITY: "log p({})", Output.PROBABILITY: "p({})"}[
        form
    ]
    return " - ".join(shape.format(name) for name in names)


# Causal: a continuation --------------------------------------------------------------------------------


def _causal(model: LoadedModel, text: Text, asked: TargetRequest) -> AttributionTarget:
    encoded = _encoded(model, text)
    if asked.target is None:
        logits = call_model(model.model, **inputs_of(model, [encoded])).logits[0, len(encoded.alignment) - 1]
        wanted: list[tuple[tuple[int, ...], str]] = [((int(logits.argmax()),), "likeliest next token")]
    else:
        names = [name for name in (asked.target, asked.contrast) if name is not None]
        wanted = [_continuation(model, encoded.alignment, name) for name in names]
    return _continuations(model, encoded, wanted, asked.output or Output.LOG_PROBABILITY)


def ask_generated(model: LoadedModel, text: Text, ids: tuple[int, ...]) -> AttributionTarget:
    """The question after the log-probability of the tokens ``ids``, as they were generated from or behind the text."""
    make = _continuations if model.kind is Kind.CAUSAL else _outputs
    return make(model, _encoded(model, text), [(ids, "as generated")], Output.LOG_PROBABILITY)


def _continuations(
    model: LoadedModel, encoded: Encoded, wanted: Sequence[tuple[tuple[int, ...], str]], form: Output
) -> AttributionTarget:
    """The target that continuations are, given by their ids and how they were found; the second is the contrast."""
    last = len(encoded.alignment) - 1
    reads = list(dict.fromkeys(TargetInput(suffix=ids[:-1]) for ids, _ in wanted))
    parts = tuple(
        TargetSum(
            tuple(TargetEntry(token, last + i) for i, token in enumerate(ids)),
            reads.index(TargetInput(suffix=ids[:-1])),
            sign,
        )
        for (ids, _), sign in _signed(wanted)
    )
    names_shown = [repr(model.tokenizer.decode(list(ids))) for ids, _ in wanted]
    return AttributionTarget(
        encoded=encoded,
        reads=tuple(reads),
        parts=parts,
        attributed=_words_only(encoded.alignment),
        output=form,
        label=named(names_shown, form),
        note="; ".join(dict.fromkeys(note for _, note in wanted)),
    )


def _continuation(model: LoadedModel, text: Alignment, name: str | int) -> tuple[tuple[int, ...], str]:
    """Ids of a continuation as the tokenizer writes it after the text, and how pieces are treated."""
    if isinstance(name, int):
        _check_id(model, name)
        return (name,), "the next token"
    whole = _with_continuation(model, text, name)
    kept = len(text.ids)
    if whole[:kept] == text.ids and len(whole) > kept:
        ids, how = whole[kept:], ""
    else:  # the tokenizer closes the text, or joins its end with the target
        ids, how = tuple(model.tokenizer(name, add_special_tokens=False).input_ids), ", encoded by itself"
    _check_known(model, name, ids)
    if len(ids) == 1:
        return ids, "the next token" + how
    pieces = ", ".join(repr(model.tokenizer.decode([i])) for i in ids)
    return (
        ids,
        f"{name!r} is {len(ids)} pieces ({pieces}){how}: their log-probabilities are added, each after those before",
    )


def _with_continuation(model: LoadedModel, text: Alignment, name: str) -> tuple[int, ...]:
    if not model.prompt.chat:
        return align(text.text + name, model.tokenizer).ids
    own = (text.words[0][0], text.words[-1][1])
    return rendered_ids(Rendered(text.text, (own,)).followed_by(name), model.tokenizer)


def _check_id(model: LoadedModel, number: int) -> None:
    size = model.config.get_text_config().vocab_size
    if not 0 <= number < size:
        raise TaskError(
            f"target {number} is not in the vocabulary of {model.name}: ids go from 0 to {size - 1}"
        )


def _check_known(model: LoadedModel, name: str, ids: Sequence[int]) -> None:
    if not ids:
        raise TaskError(f"target {name!r} is no token for the tokenizer of {model.name}; give a word")
    if model.tokenizer.unk_token_id is not None and model.tokenizer.unk_token_id in ids:
        raise TaskError(
            f"target {name!r} is not in the vocabulary of {model.name}: its tokenizer reads it as "
            f"{model.tokenizer.unk_token!r}; choose another word"
        )


# Masked: a word in the blank ----------------------------------------------------------------------------


def _masked(model: LoadedModel, text: Text, asked: TargetRequest) -> AttributionTarget:
    _ = model.mask_id  # a tokenizer without one is refused
    mask = model.tokenizer.mask_token
    if not isinstance(text, str) or mask not in text:
        raise TaskError(f"{model.name} predicts masked words: write {mask} where the word is to stand")
    if model.prompt.special_tokens is SpecialTokens.TEXT:
        raise TaskError(f"{mask} marks the word as a special token; leave out --special-tokens text")
    blank = asked.position or 0
    if not 0 <= blank < text.count(mask):
        raise TaskError(f"position {blank} is not a blank: the text has {text.count(mask)}, counted from 0")
    form = asked.output or Output.LOG_PROBABILITY
    if asked.target is None:
        wanted: list[tuple[tuple[int, ...], str]] = [((_likeliest(model, text, blank),), "likeliest word")]
    else:
        names = [name for name in (asked.target, asked.contrast) if name is not None]
        wanted = [_filler(model, text, blank, name) for name in names]
    sizes = {len(ids) for ids, _ in wanted}
    if len(sizes) > 1:
        raise TaskError(
            f"{asked.target!r} and {asked.contrast!r} are of {' and '.join(str(len(i)) for i, _ in wanted)} pieces, "
            "so they need texts with different numbers of masks; choose words of equally many pieces"
        )
    pieces = text.split(mask)
    filled = mask.join(pieces[: blank + 1]) + mask * sizes.pop() + mask.join(pieces[blank + 1 :])
    encoded = _encoded(model, filled)
    places = [i for i, token in enumerate(encoded.alignment.ids) if token == model.tokenizer.mask_token_id]
    parts = tuple(
        TargetSum(tuple(TargetEntry(token, places[blank + i]) for i, token in enumerate(ids)), 0, sign)
        for (ids, _), sign in _signed(wanted)
    )
    shown = [repr(model.tokenizer.decode(list(ids)).strip()) for ids, _ in wanted]
    return AttributionTarget(
        encoded=encoded,
        reads=(TargetInput(),),
        parts=parts,
        attributed=_words_only(encoded.alignment, without=places),
        output=form,
        label=named(shown, form),
        note="; ".join(dict.fromkeys(note for _, note in wanted)),
    )


def _likeliest(model: LoadedModel, text: str, blank: int) -> int:
    encoded = _encoded(model, text)
    places = [i for i, token in enumerate(encoded.alignment.ids) if token == model.tokenizer.mask_token_id]
    return int(call_model(model.model, **inputs_of(model, [encoded])).logits[0, places[blank]].argmax())


def _filler(model: LoadedModel, text: str, blank: int, name: str | int) -> tuple[tuple[int, ...], str]:
    """Ids of a word as the tokenizer writes it in the blank."""
    if isinstance(name, int):
        _check_id(model, name)
        return (name,), "the word in the blank"
    mask = model.tokenizer.mask_token
    pieces = text.split(mask)
    before = mask.join(pieces[: blank + 1])
    written = align(before + name.strip() + mask.join(pieces[blank + 1 :]), model.tokenizer)
    start, end = len(before), len(before) + len(name.strip())
    ids = tuple(
        token
        for token, (a, b) in zip(written.ids, written.offsets, strict=True)
        if a < end and b > start and a < b
    )
    _check_known(model, name, ids)
    if len(ids) == 1:
        return ids, "the word in the blank"
    return (
        ids,
        f"{name!r} is {len(ids)} pieces, each behind a mask of its own: their log-probabilities are added",
    )


# Encoder-decoder: what is generated ---------------------------------------------------------------------


def _seq2seq(model: LoadedModel, text: Text, asked: TargetRequest) -> AttributionTarget:
    encoded = _encoded(model, text)
    form = asked.output or Output.LOG_PROBABILITY
    if isinstance(asked.target, int):
        raise TaskError(f"target {asked.target} of {model.name}: give the text it should write, not an id")
    if asked.target is None:
        written = [(generated_ids(model, text), "as generated greedily")]
    else:
        names = [str(name) for name in (asked.target, asked.contrast) if name is not None]
        written = [_written(model, name) for name in names]
    written = [(ids, note) for ids, note in written if ids]
    if not written:
        raise TaskError(f"{model.name} writes nothing for this text; give a target")
    return _outputs(model, encoded, written, form, asked.position)


def _outputs(
    model: LoadedModel,
    encoded: Encoded,
    written: Sequence[tuple[tuple[int, ...], str]],
    form: Output,
    position: int | None = None,
) -> AttributionTarget:
    """The target that texts of a decoder beside an encoder are, as :func:`_continuations` has those behind a text."""
    prefix = decoder_prefix(model)
    first = len(prefix) - 1  # its last token predicts the target's first
    reads = [TargetInput(decoder=(*prefix, *ids[:-1])) for ids, _ in written]
    parts = []
    for number, ((ids, _), sign) in enumerate(_signed(written)):
        chosen = range(len(ids)) if position is None else (position,)
        if position is not None and not 0 <= position < len(ids):
            raise TaskError(
                f"position {position} is out of range: the target has {counted(len(ids), 'token')}, from 0"
            )
        parts.append(TargetSum(tuple(TargetEntry(ids[i], first + i) for i in chosen), number, sign))
    shown = [
        repr(model.tokenizer.decode(list(ids) if position is None else [ids[position]])) for ids, _ in written
    ]
    return AttributionTarget(
        encoded=encoded,
        reads=tuple(reads),
        parts=tuple(parts),
        attributed=_words_only(encoded.alignment),
        output=form,
        label=named(shown, form),
        note=f"{written[0][1]}; log-probabilities of its tokens are added, each after those before",
    )


def _written(model: LoadedModel, name: str) -> tuple[tuple[int, ...], str]:
    """Ids of a target, with the end of text where the tokenizer writes one behind texts."""
    ids = tuple(model.tokenizer(name, add_special_tokens=False).input_ids)
    _check_known(model, name, ids)
    end = model.tokenizer.eos_token_id
    if end is not None and end in model.tokenizer(name).input_ids[len(ids) :]:
        ids = (*ids, end)
    return ids, counted(len(ids), "token")


# Classifiers: a class, a number, a label of a token, the ends of a span --------------------------------------


def _classifier(model: LoadedModel, text: Text, asked: TargetRequest) -> AttributionTarget:
    encoded = _encoded(model, text)
    form = asked.output or Output.LOGIT
    if form is not Output.LOGIT and problem_of(model.model) is ProblemType.NUMBER:
        raise TaskError(
            f"output {form} is not defined for {model.name}: its head predicts a number (regression), which has no "
            "probability; use output logit, the number itself"
        )
    if asked.target is not None and type(model.model).__name__.endswith("ForSequenceClassification"):
        parts, label = _classes(model, asked, form, None, model.config.num_labels)
    else:
        output = call_model(model.model, **inputs_of(model, [encoded]))
        if hasattr(output, "start_logits"):
            terms, label = _span(output, encoded, asked)
            parts = (TargetSum(terms),)
        else:
            position = _labelled_position(model, output.logits, encoded, asked)
            line = output.logits[0] if position is None else output.logits[0, position]
            likeliest = asked if asked.target is not None else replace(asked, target=int(line.argmax()))
            parts, label = _classes(model, likeliest, form, position, len(line))
    return AttributionTarget(
        encoded=encoded,
        reads=(TargetInput(),),
        parts=parts,
        attributed=_words_only(encoded.alignment),
        output=form,
        label=label,
        note="the likeliest class" if asked.target is None else "",
    )


def _labelled_position(
    model: LoadedModel, logits: torch.Tensor, encoded: Encoded, asked: TargetRequest
) -> int | None:
    if logits.ndim == 2:
        return None
    length = len(encoded.alignment)
    if asked.position is None or not 0 <= asked.position < length:
        raise TaskError(
            f"{model.name} labels tokens: say which one with position, 0 to {length - 1} "
            f"(given: {asked.position})"
        )
    return asked.position


def _classes(
    model: LoadedModel, asked: TargetRequest, form: Output, position: int | None, count: int
) -> tuple[tuple[TargetSum, ...], str]:
    """The parts of a target among ``count`` classes, and its name."""
    names = (asked.target, asked.contrast)
    classes = [_class(model, name, count) for name in names if name is not None]
    parts = tuple(TargetSum((TargetEntry(c, position),), 0, sign) for c, sign in _signed(classes))
    return parts, named([_class_name(model, c) for c in classes], form)


def _class(model: LoadedModel, name: str | int, count: int) -> int:
    """The number of a class given by number or label."""
    labels = {str(label): int(number) for number, label in (model.config.id2label or {}).items()}
    return class_number(name, labels, count, model.name)


def class_number(name: str | int, labels: Mapping[str, int], count: int, owner: str) -> int:
    """The number of a class given by number or label, of the ``count`` that the model called ``owner`` has.

    Raises :class:`~workbench.errors.TaskError` for any other, with the nearest label.
    """
    if str(name) in labels:
        return labels[str(name)]
    if str(name).lstrip("-").isdigit():
        if 0 <= int(name) < count:
            return int(name)
        raise TaskError(f"class {name} is out of range: {owner} has {count}, 0 to {count - 1}")
    raise TaskError(f"{owner} has no class {name!r}; {did_you_mean(str(name), list(labels))}")


def _class_name(model: LoadedModel, number: int) -> str:
    return str((model.config.id2label or {}).get(number, number))


def _span(output: Any, encoded: Encoded, asked: TargetRequest) -> tuple[tuple[TargetEntry, ...], str]:
    """Terms of a span's start, end, or both: at ``position``, or where the model puts them."""
    which = "span" if asked.target is None else str(asked.target)
    ends = {"start": ("start_logits",), "end": ("end_logits",), "span": ("start_logits", "end_logits")}
    if which not in ends or asked.contrast is not None:
        raise TaskError(f"target {which!r} of a span model; allowed: start, end, span (and no contrast)")
    length = len(encoded.alignment)
    if asked.position is not None and not 0 <= asked.position < length:
        raise TaskError(
            f"position {asked.position} is out of range: the text has {counted(length, 'token')}, from 0"
        )
    terms = tuple(
        TargetEntry(
            int(getattr(output, field)[0, :length].argmax()) if asked.position is None else asked.position,
            field=field,
        )
        for field in ends[which]
    )
    places = " and ".join(f"{t.field.removesuffix('_logits')} at token {t.index}" for t in terms)
    return terms, places
