"""What a model does with positions, measured on a few tokens: whether it looks ahead, how long a text it takes.

No list of architectures would be complete, and a configuration says what was intended, not what is computed.
"""

from __future__ import annotations

import inspect
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel

from workbench.models.dispatched import input_device

__all__ = ["has_order", "longest_input", "looks_ahead", "takes_order"]

_SHORT_TEXT = 7  # tokens of a pass that finds the position tables
_LONGEST_TRIED = 4096  # longer texts cost seconds: a larger table is not tested
_OTHER_SIDE_TOKENS = 2  # tokens on the side of an encoder-decoder that is not measured
_KEPT, _CHANGED = 3, 4  # tokens before and after the place from which on a text is changed
# Equal shapes are computed by equal kernels, so only experts that are chosen differently may round differently.
_OUTPUT_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}
_HALF_PRECISION_TOLERANCE = 2e-2
_aten = torch.ops.aten


# What was measured, by module: once is enough.
_LOOKS_AHEAD: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
_LONGEST: WeakKeyDictionary[nn.Module, dict[bool, int | None]] = WeakKeyDictionary()


def looks_ahead(model: Any) -> bool:
    """Whether other tokens later in a text change the model's logits at earlier ones; measured once.

    Logits (1, T, V) of two texts (of two targets, behind one source) that begin alike are compared where they are
    alike. ``False`` for a model that gives no logits by position.
    """
    if model not in _LOOKS_AHEAD:
        # in a context of its own, so that no open session watches or changes these passes
        _LOOKS_AHEAD[model] = Context().run(_later_tokens_matter, model)
    return _LOOKS_AHEAD[model]


def has_order(model: Any) -> bool:
    """Whether a model reads a text in an order of prediction that it is given (XLNet's ``perm_mask``)."""
    return {"perm_mask", "target_mapping"} <= {*inspect.signature(model.forward).parameters}


def takes_order(model: Any) -> bool:
    """Whether a model predicts tokens in an order that it is given: :func:`has_order`, with a vocabulary's head."""
    return has_order(model) and model.get_output_embeddings() is not None


def _later_tokens_matter(model: Any) -> bool:
    ids = _ids(model, _KEPT + _CHANGED)
    other = ids.clone()
    other[:, _KEPT:] = _ids(model, _KEPT + 2 * _CHANGED)[:, -_CHANGED:]
    first, second = (_logits(model, given) for given in (ids, other))
    if first is None or second is None:
        return False
    moved = float((first - second).abs().max())
    return moved > _OUTPUT_TOLERANCE.get(first.dtype, _HALF_PRECISION_TOLERANCE) * float(first.abs().max())


def _logits(model: Any, ids: Tensor) -> Tensor | None:
    """Logits (1, kept, V) at the tokens that stay the same."""
    inputs = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        inputs = {"input_ids": _ids(model, _OTHER_SIDE_TOKENS), "decoder_input_ids": ids}
    with torch.no_grad():
        logits = getattr(model(**inputs, **_without_cache(model)), "logits", None)
    return logits[:, :_KEPT] if isinstance(logits, Tensor) and logits.ndim == 3 else None


def longest_input(model: Any, *, decoder: bool = False) -> int | None:
    """Most tokens for which each has a position in the model's tables; ``None`` if no table limits them. Measured once.

    ``decoder``: on the decoder's side of an encoder-decoder. A short pass finds the lookups whose indices count
    the tokens up, wherever they start; longer passes, ended after the last such lookup, show whether one token
    more than the table has room for is refused (a table may also grow, or give far tokens one position).
    """
    known = _LONGEST.setdefault(model, {})
    if decoder not in known:
        known[decoder] = Context().run(_shortest_table, model, decoder)
    return known[decoder]


def _shortest_table(model: Any, decoder: bool) -> int | None:
    lookups = _Lookups(_SHORT_TEXT)
    if not _runs(model, _SHORT_TEXT, decoder, lookups):
        return None
    limit: int | None = None
    for rows, start, number in lookups.found:
        longest = rows - start
        if longest <= _SHORT_TEXT or (limit is not None and longest >= limit):
            continue
        if longest > _LONGEST_TRIED or not _fits(model, longest + 1, decoder, (rows, number)):
            limit = _last_that_fits(model, longest, decoder, (rows, number))
    return limit


def _fits(model: Any, length: int, decoder: bool, last: tuple[int, int]) -> bool:
    """Whether a text of ``length`` tokens gets through the lookup ``last``, by the table's rows and its number."""
    return _runs(model, length, decoder, _Lookups(length, last))


def _last_that_fits(model: Any, longest: int, decoder: bool, last: tuple[int, int]) -> int:
    """``longest``, or what fits of it where texts are padded to windows; found by halving."""
    if longest > _LONGEST_TRIED or _fits(model, longest, decoder, last):
        return longest
    low, high = _SHORT_TEXT, longest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(model, middle, decoder, last) else (low, middle)
    return low


class _Enough(Exception):
    """Ends a pass that has shown what was to be found."""


class _Full(Exception):
    """A token's position is not in the table."""


class _Lookups(TorchDispatchMode):
    """Watches a pass over ``length`` tokens for lookups at one position after the other.

    ``found``: rows of the table, first position, and the number of the lookup among all of the pass. The pass ends
    with :class:`_Full` at a lookup outside a table, before it is tried, and with :class:`_Enough` after ``last``.
    """

    def __init__(self, length: int, last: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.found: list[tuple[int, int, int]] = []
        self._length, self._last, self._count = length, last, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Look at the operation's arguments, then compute it."""
        for rows, index in _lookups_of(func, args):
            line = _counting(index, self._length)
            if line is None:
                continue
            start, last = line
            if last >= rows:
                raise _Full
            self.found.append((rows, start, self._count))
            if self._last is not None and rows == self._last[0] and self._count >= self._last[1]:
                raise _Enough
            self._count += 1
        return func(*args, **(kwargs or {}))


def _lookups_of(func: Any, args: tuple[Any, ...]) -> list[tuple[int, Tensor]]:
    """Rows of the table and indices into them, for each index of an operation that looks something up."""
    if func is _aten.embedding.default:
        return [(args[0].shape[0], args[1])]
    if func in (_aten.index_select.default, _aten.gather.default):
        return [(args[0].shape[args[1]], args[2])] if args[0].ndim else []
    if func is _aten.index.Tensor:
        return [(args[0].shape[axis], index) for axis, index in enumerate(args[1]) if _is_index(index)]
    return []


def _is_index(index: Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.int64, torch.int32)


def _counting(index: Tensor, length: int) -> tuple[int, int] | None:
    """First and last of ``length`` or more indices that count up along one axis and are equal along the others.

    Relative positions differ along two axes. What is past ``length`` may be padding: then it does not count.
    """
    for axis, size in enumerate(index.shape):
        if size < length:
            continue
        line = index.movedim(axis, -1).reshape(-1, size)[0]
        same = index.movedim(axis, -1) == line
        if bool((line[:length].diff() == 1).all()) and bool(same.all()):
            return int(line[0]), int(line.max())
    return None


def _runs(model: Any, length: int, decoder: bool, watch: _Lookups) -> bool:
    """Whether the model's body (an adapter with its virtual tokens around it) reads ``length`` tokens."""
    inputs = {"input_ids": _ids(model, _OTHER_SIDE_TOKENS if decoder else length)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = _ids(model, length if decoder else _OTHER_SIDE_TOKENS)
    body = model.base_model if isinstance(model, PreTrainedModel) else model
    try:
        with torch.no_grad(), watch:
            body(**inputs, **_without_cache(body))
    except _Enough:
        return True
    # Whatever a model raises for a text that is too long says that it is too long.
    except Exception:
        return False
    return True


def _ids(model: Any, length: int) -> Tensor:
    """``length`` ids (1, T) of the vocabulary that do not count up and are no padding."""
    config = model.config.get_text_config()
    ids = [i for i in (4, 6, 3, 7, 5, 9, 8, 11, 10) if i != getattr(config, "pad_token_id", None)]
    return torch.tensor([[ids[i % len(ids)] for i in range(length)]], device=input_device(model))


def _without_cache(model: Any) -> dict[str, bool]:
    return {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
