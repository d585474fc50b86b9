"""Rows of ids through a model's head: one way to encode, pad and batch them, whatever the head reads.

Axes: B row, T token, L label.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from workbench.errors import ModelError
from workbench.models._loaded import LoadedModel
from workbench.text.pieces import split_texts

__all__ = [
    "HeadOutput",
    "HeadRow",
    "Padding",
    "encode_row",
    "groups_of",
    "head_outputs",
    "padded",
    "padding_id",
    "padding_of",
    "relative_tolerance",
    "row_of",
]

HeadOutput: TypeAlias = dict[str, Tensor]
_FIELDS = ("logits", "start_logits", "end_logits")
_SAMPLES = ("The cat sat on the mat.", "Yes, naturally, after years of looking for it in the hall.")
_LONGEST_SAMPLE = 24  # tokens of a sample: enough to tell the paddings apart

# Largest difference of two outputs that rounding explains, as a share of the largest output. Sums done in
# another order differ by an epsilon or so each, and a forward pass is a few hundred of them in a row: in
# float32 that is some 800 epsilons (2**-23). The half precisions round the residual stream once a layer
# instead of accumulating in it, so some ten epsilons (2**-10, 2**-7) are enough for them. The attention
# softmax of many models is float32 even in a float64 model, which bounds what float64 can promise.
_RELATIVE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def relative_tolerance(dtype: torch.dtype) -> float:
    """Difference of two outputs allowed in ``dtype``, as a share of the largest absolute output."""
    return _RELATIVE.get(dtype, 1e-2)


class Padding(StrEnum):
    """Which padding leaves a head's outputs as they are without any."""

    RIGHT = "right"
    LEFT = "left"
    EQUAL = "none: rows of one length together"
    SINGLE = "none: one row at a time"


@dataclass(frozen=True)
class HeadRow:
    """Ids of a text (or of a pair, or of a question with a part of its context), and which text each is of."""

    ids: tuple[int, ...]
    segments: tuple[int, ...] | None = None  # None where the tokenizer gives none

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.ids)


def encode_row(model: LoadedModel, text: str, pair: str | None = None) -> HeadRow:
    """What the model's tokenizer makes of a text or a pair, truncated to the model's length."""
    return row_of(model.tokenizer(text, pair, truncation=True, max_length=model.max_length, verbose=False))


def encode_row_end(model: LoadedModel, text: str) -> HeadRow:
    """The row of ``text``, of which so many characters are left out at the beginning that the model reads the rest."""
    row = encode_row(model, text)
    if row.length < model.max_length:
        return row
    (pieces,) = split_texts([text], model.tokenizer, add_special_tokens=False)
    room = model.max_length - model.tokenizer.num_special_tokens_to_add()
    return row if len(pieces.ids) <= room else encode_row(model, text[pieces.offsets[-room][0] :])


def row_of(encoding: Mapping[str, Any]) -> HeadRow:
    """The row that a tokenizer's encoding of one text stands for."""
    segments = encoding.get("token_type_ids")
    return HeadRow(tuple(encoding["input_ids"]), None if segments is None else tuple(segments))


def padding_id(tokenizer: Any, config: Any) -> int:
    """The id to pad with.

    A model's own (``config.pad_token_id``) comes first, since heads and position ids look for that one; else it is
    the tokenizer's, else the tokenizer's end token, else 0. An id beyond the vocabulary is passed over (Starcoder2's
    default configuration has such an end token).
    """
    text = config.get_text_config()
    size = getattr(text, "vocab_size", None)
    found = (
        getattr(text, "pad_token_id", None),
        getattr(tokenizer, "pad_token_id", None),
        getattr(tokenizer, "eos_token_id", None),
    )
    usable = (n for n in found if isinstance(n, int) and n >= 0 and (size is None or n < size))
    return next(usable, 0)


def padded(model: LoadedModel, rows: Sequence[HeadRow], side: str = "right") -> dict[str, Tensor]:
    """Arguments of the model's forward (B, T): ids, a mask, and segments where tokenizer and model have them."""
    width = max(row.length for row in rows)

    def filled(values: Sequence[tuple[int, ...]], value: int) -> Tensor:
        gaps = ([value] * (width - len(row)) for row in values)
        both = zip(gaps, values, strict=True)
        joined = [[*gap, *row] if side == "left" else [*row, *gap] for gap, row in both]
        return torch.tensor(joined, device=model.device)

    inputs = {"input_ids": filled([row.ids for row in rows], padding_id(model.tokenizer, model.config))}
    accepted = _arguments(model.model)
    if {"attention_mask", "kwargs"} & accepted:
        inputs["attention_mask"] = filled([(1,) * row.length for row in rows], 0)
    segments = [row.segments for row in rows if row.segments is not None]
    given = "token_type_ids" in model.tokenizer.model_input_names and len(segments) == len(rows)
    if given and "token_type_ids" in accepted:
        inputs["token_type_ids"] = filled(segments, 0)
    return inputs


def _arguments(model: Any) -> set[str]:
    """Names of what the model's forward takes."""
    return set(inspect.signature(_inner(model).forward).parameters)


def _inner(model: Any) -> Any:
    """The model that an adapter stands around, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def head_outputs(model: LoadedModel, rows: Sequence[HeadRow]) -> list[HeadOutput]:
    """What the head gives each row, as for that row alone: its logits without padding, in the order of ``rows``.

    ``logits`` are (L,) of a text, (T, L) of its tokens, or (1,) of one choice; heads for spans give ``start_logits``
    and ``end_logits`` (T,). Float32 or finer. Raises :class:`~workbench.errors.ModelError` if the head cannot read a
    text.
    """
    padding, found = padding_of(model), dict[int, HeadOutput]()
    for places in groups_of(model, [row.ids for row in rows]):
        outputs = _run(model, [rows[i] for i in places], "left" if padding is Padding.LEFT else "right")
        found.update(zip(places, outputs, strict=True))
    return [found[i] for i in range(len(rows))]


def groups_of(
    model: LoadedModel, rows: Sequence[Sequence[int]], padding: Padding | None = None
) -> list[list[int]]:
    """Places of ``rows`` that can be one batch: all, those of one length, or each by itself.

    Heads of encoder-decoders read an end token and refuse rows with unequal numbers of them, so these are parted.
    """
    allowed = padding or padding_of(model)
    if allowed is Padding.SINGLE:
        return [[place] for place in range(len(rows))]
    end = model.config.eos_token_id if model.config.is_encoder_decoder else -1  # -1: no token
    groups: dict[tuple[int, int], list[int]] = {}
    for place, ids in enumerate(rows):
        length = len(ids) if allowed is Padding.EQUAL else 0
        groups.setdefault((length, sum(token == end for token in ids)), []).append(place)
    return list(groups.values())


def _run(model: LoadedModel, rows: Sequence[HeadRow], side: str) -> list[HeadOutput]:
    """One forward pass."""
    inputs = padded(model, rows, side)
    # a head that reads (B, choices, T), also inside an adapter; here each row is one choice
    if type(_inner(model.model)).__name__.endswith("ForMultipleChoice"):
        inputs = {name: value.unsqueeze(1) for name, value in inputs.items()}
    with model.lock, torch.inference_mode():
        output = model.model(**inputs)
    width = max(row.length for row in rows)
    found = []
    for place, row in enumerate(rows):
        own = slice(width - row.length, width) if side == "left" else slice(0, row.length)
        fields = {
            name: getattr(output, name)[place] for name in _FIELDS if getattr(output, name, None) is not None
        }
        found.append({n: _fine(v[own] if _over_tokens(n, v) else v) for n, v in fields.items()})
    return found


def _over_tokens(name: str, values: Tensor) -> bool:
    return name != "logits" or values.ndim == 2


def _fine(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()


_known: WeakKeyDictionary[nn.Module, Padding] = WeakKeyDictionary()


def padding_of(model: LoadedModel) -> Padding:
    """The padding that a head bears, found once by running it on two sample texts alone and together.

    Heads that read the last token look for the padding id, some read the last place whatever stands there (XLNet), and
    without a padding id many refuse a batch. Raises :class:`~workbench.errors.ModelError` if it reads no text at all.
    """
    if model.model not in _known:
        # in a context of its own, so that no open session watches or changes these passes
        _known[model.model] = Context().run(_measured, model)
    return _known[model.model]


def _measured(model: LoadedModel) -> Padding:
    rows = [_shortened(encode_row(model, text)) for text in _SAMPLES]
    short = min(row.length for row in rows)
    equal = [_shortened(row, short) for row in rows]
    try:
        alone = [_run(model, [row], "right")[0] for row in (*rows, *equal)]
    except (ValueError, RuntimeError, IndexError, TypeError, AttributeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise ModelError(
            f"{model.name} ({type(model.model).__name__}) cannot read a text: {reason}"
        ) from error
    for padding, side in ((Padding.RIGHT, "right"), (Padding.LEFT, "left"), (Padding.EQUAL, "right")):
        together, truth = (equal, alone[2:]) if padding is Padding.EQUAL else (rows, alone[:2])
        if _unchanged(model, together, truth, side):
            return padding
    return Padding.SINGLE


def _shortened(row: HeadRow, length: int = _LONGEST_SAMPLE) -> HeadRow:
    """At most ``length`` tokens; the last one stays, since it may be the end token that a head reads."""
    if row.length <= length:
        return row
    kept = [*range(length - 1), row.length - 1]
    segments = None if row.segments is None else tuple(row.segments[i] for i in kept)
    return HeadRow(tuple(row.ids[i] for i in kept), segments)


def _unchanged(model: LoadedModel, rows: Sequence[HeadRow], truth: Sequence[HeadOutput], side: str) -> bool:
    """Whether one batch of ``rows`` gives each what it gives alone."""
    try:
        together = _run(model, rows, side)
    except (ValueError, RuntimeError, IndexError):  # a head without a padding id refuses a batch
        return False
    share = relative_tolerance(model.dtype)
    return all(
        float((one[name] - other[name]).abs().max()) <= share * float(one[name].abs().max())
        for one, other in zip(truth, together, strict=True)
        for name in one
    )
