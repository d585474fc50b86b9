"""The slots of a template: how its text refers to them, and which combinations of entries fill them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import numpy as np
from jaxtyping import Int

from workbench.data.grammar import indefinite_article, nouns, regular_plural
from workbench.errors import WorkbenchError, did_you_mean

__all__ = [
    "FULL_LIMIT",
    "Reference",
    "TemplateError",
    "combinations",
    "flat_indices",
    "parse",
    "parse_reference",
]

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_REFERENCE = re.compile(
    r"(?:(?P<modifier>\w+):)?(?P<slot>[A-Za-z_]\w*)(?:\.(?P<field>\w+)|\[(?P<index>\d+)\])?"
)


class TemplateError(WorkbenchError):
    """A template cannot be read or cannot make the cases asked for."""


def _with_article(text: str) -> str:
    return f"{indefinite_article(text)} {text}"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


@cache
def _plurals() -> dict[str, str]:
    return {noun.singular: noun.plural for noun in nouns()}


def _plural(text: str) -> str:
    return _plurals().get(text) or regular_plural(text)


_MODIFIERS: dict[str, Callable[[str], str]] = {
    "a": _with_article,
    "A": lambda text: _capitalised(_with_article(text)),
    "capital": _capitalised,
    "lower": str.lower,
    "plural": _plural,
}


@dataclass(frozen=True)
class Reference:
    """``{modifier:slot.field}`` or ``{modifier:slot[index]}``; modifier and part may be absent."""

    slot: str
    modifier: str | None = None
    part: str | int | None = None

    def raw(self, entry: Any) -> Any:
        """The part of ``entry`` that the reference names; the first part of a record where it names none."""
        if isinstance(entry, Mapping):
            return self._field(entry)
        if isinstance(entry, (tuple, list)):
            return self._member(entry)
        if self.part is not None:
            raise TemplateError(f"slot {{{self.slot}}} holds {entry!r}, which has no part {self.part!r}")
        return entry

    def _field(self, entry: Mapping[Any, Any]) -> Any:
        if self.part is None:
            return next(iter(entry.values()), "")
        if self.part not in entry:
            near = did_you_mean(str(self.part), [str(key) for key in entry])
            raise TemplateError(f"an entry of slot {{{self.slot}}} has no field {self.part!r}; {near}")
        return entry[self.part]

    def _member(self, entry: tuple[Any, ...] | list[Any]) -> Any:
        index = 0 if self.part is None else self.part
        if not isinstance(index, int) or index >= len(entry):
            raise TemplateError(
                f"an entry of slot {{{self.slot}}} has {len(entry)} members; no member {self.part!r}, "
                f"write {{{self.slot}[0]}} to {{{self.slot}[{len(entry) - 1}]}}"
            )
        return entry[index]

    def render(self, entry: Any) -> str:
        """The text that stands in the template for ``entry``."""
        text = str(self.raw(entry))
        return _MODIFIERS[self.modifier](text) if self.modifier else text


def parse_reference(content: str, where: str) -> Reference:
    """The reference written between braces; raises :class:`TemplateError` if it is not one."""
    match = _REFERENCE.fullmatch(content)
    if match is None:
        raise TemplateError(
            f"{where}: {{{content}}} is no slot; write {{slot}}, {{a:slot}}, {{slot.field}}, {{slot[0]}}, "
            "or {{ and }} for braces"
        )
    modifier = match["modifier"]
    if modifier is not None and modifier not in _MODIFIERS:
        raise TemplateError(
            f"{where}: unknown modifier {modifier!r}; {did_you_mean(modifier, list(_MODIFIERS))}"
        )
    index = int(match["index"]) if match["index"] else None
    return Reference(match["slot"], modifier, match["field"] if index is None else index)


def parse(text: str) -> tuple[str, tuple[Reference, ...]]:
    """A ``%`` pattern and the references that fill it, in order.

    Raises :class:`TemplateError` for an unknown modifier, something other than a slot, or a single brace.
    """
    parts: list[str] = []
    references: list[Reference] = []
    position = 0
    for match in _PIECE.finditer(text):
        parts.append(text[position : match.start()].replace("%", "%%"))
        position = match.end()
        if match.group() in ("{{", "}}"):
            parts.append(match.group()[0])
        elif match[1] is None:
            raise TemplateError(
                f"template {text!r}: single {match.group()!r} at character {match.start() + 1}; double it"
            )
        else:
            references.append(parse_reference(match[1], f"template {text!r}"))
            parts.append("%s")
    parts.append(text[position:].replace("%", "%%"))
    return "".join(parts), tuple(references)


FULL_LIMIT = 1_000_000
_COMBINATIONS_PER_CHUNK = 50_000


def flat_indices(total: int, *, count: int | None, seed: int) -> Iterator[list[int]]:
    """Chunks of different numbers below ``total``: all in order without ``count``, else in random order.

    Above a million combinations the random order is a stream of draws that ends after 50 times ``count``.
    """
    if count is None:
        order: Sequence[int] = range(total)
    elif total <= FULL_LIMIT:
        order = np.random.default_rng(seed).permutation(total).tolist()
    else:
        yield from _stream(total, count=count, seed=seed)
        return
    step = _COMBINATIONS_PER_CHUNK if count is None else max(1, min(_COMBINATIONS_PER_CHUNK, count))
    for start in range(0, total, step):
        yield list(order[start : start + step])


def _stream(total: int, *, count: int, seed: int) -> Iterator[list[int]]:
    draw = _drawer(total, seed)
    seen: set[int] = set()
    step = max(1, min(_COMBINATIONS_PER_CHUNK, count))
    for _ in range(50 * math.ceil(count / step)):
        chunk = [index for index in dict.fromkeys(draw(step)) if index not in seen]
        seen.update(chunk)
        yield chunk


def _drawer(total: int, seed: int) -> Callable[[int], list[int]]:
    """A function that draws so many numbers below ``total``, from NumPy where 64 bits hold them."""
    if total < 2**63:
        generator = np.random.default_rng(seed)
        return lambda size: generator.integers(0, total, size).tolist()
    random = Random(seed)
    return lambda size: [random.randrange(total) for _ in range(size)]


def combinations(flat: Sequence[int], sizes: Sequence[int]) -> list[Int[np.ndarray, " case"]]:
    """For each slot the entry index in each combination; the last slot varies fastest."""
    columns: list[Int[np.ndarray, " case"]] = []
    # Python integers where the number of combinations leaves 64 bits.
    remaining = np.asarray(flat, dtype=object if math.prod(sizes) >= 2**63 else np.int64)
    for size in reversed(sizes):
        columns.append((remaining % size).astype(np.int64))
        remaining = remaining // size
    return columns[::-1]
