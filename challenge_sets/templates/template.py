"""Templates: texts with slots, expanded over lexicons to cases that keep what they were made from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations as pairs_of
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Int

from challenge_sets.templates._slots import (
    FULL_LIMIT,
    Reference,
    TemplateError,
    combinations,
    flat_indices,
    parse,
    parse_reference,
)
from workbench.data.grammar import lexicon, lexicon_names
from workbench.errors import did_you_mean

if TYPE_CHECKING:
    from challenge_sets.templates.suggestions import Suggestion
    from workbench.models import LoadedModel

__all__ = ["Case", "Template", "TemplateError"]

Label: TypeAlias = "Callable[[Mapping[str, Any]], Any] | object"
_DRAW = re.compile(r"(.*?)\d+")
_ONE_REFERENCE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Case:
    """One text, or one pair of texts, made from a template.

    ``id`` is the template's name and the number of the combination in the full product, so a case keeps it
    whichever sample it is in. ``values`` are the entries of the slots called ``names``.
    """

    id: str
    texts: tuple[str, ...]
    label: Any
    template: str
    names: tuple[str, ...] = field(repr=False)
    values: tuple[Any, ...] = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)

    @property
    def text(self) -> str:
        """The text; the first one of a pair."""
        return self.texts[0]

    @property
    def slots(self) -> dict[str, Any]:
        """Which entry filled which slot."""
        return dict(zip(self.names, self.values, strict=True))


class Template:
    """A text with slots, or several texts (a pair, say) that share their slots.

    ``{slot}`` draws from the lexicon ``slot``, given by keyword (a list, or the name of a built-in lexicon)
    or built in; ``{slot1}`` and ``{slot2}`` are two draws from it, and ``{slot}`` twice is one draw.
    ``{a:slot}`` puts *a* or *an* in front; ``A:``, ``capital:``, ``lower:`` and ``plural:`` change the form.
    ``{slot.field}`` and ``{slot[0]}`` take parts of an entry that is a dictionary or a tuple, which ties
    them together. Braces are doubled. ``{mask}`` is left to :meth:`suggest`.

    Raises :class:`TemplateError` for a slot without lexicon (with the nearest names), an empty lexicon, a
    lexicon that no slot uses, and text that does not parse.
    """

    def __init__(self, text: str | Sequence[str], /, **lexicons: Sequence[Any] | str) -> None:
        self.texts = (text,) if isinstance(text, str) else tuple(text)
        parsed = [parse(part) for part in self.texts]
        self._patterns = tuple(pattern for pattern, _ in parsed)
        self._references = tuple(references for _, references in parsed)
        self._given = lexicons
        self.entries: dict[str, tuple[Any, ...]] = {
            slot: self._entries(slot) for slot in self.slots if slot != "mask" or "mask" in lexicons
        }
        self._check_use()

    def __repr__(self) -> str:
        return f"Template({' / '.join(self.texts)!r})"

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots in order of appearance, ``mask`` included."""
        return tuple(dict.fromkeys(r.slot for references in self._references for r in references))

    @property
    def size(self) -> int:
        """Number of combinations of slot entries."""
        return math.prod(len(entries) for entries in self.entries.values())

    def _source(self, slot: str) -> str:
        """The lexicon that ``slot`` draws from: its own, or that without the number of the draw."""
        match = _DRAW.fullmatch(slot)
        known = {*self._given, *lexicon_names()}
        return match[1] if match and slot not in known and match[1] in known else slot

    def _entries(self, slot: str) -> tuple[Any, ...]:
        source = self._source(slot)
        given = self._given.get(source, source)
        if not isinstance(given, str):
            entries = tuple(given)
        elif given in lexicon_names():
            entries = lexicon(given)
        else:
            near = did_you_mean(given, [*self._given, *lexicon_names()])
            raise TemplateError(f"slot {{{slot}}} has no lexicon {given!r}; {near} Or give {source}=[...]")
        if not entries:
            raise TemplateError(f"the lexicon of slot {{{slot}}} is empty; {self!r} can make no case")
        return entries

    def _check_use(self) -> None:
        for name in self._given:
            if name not in {self._source(slot) for slot in self.slots}:
                slots = ", ".join(self.slots) or "none"
                raise TemplateError(f"no slot of {self!r} uses the lexicon {name!r}; slots: {slots}")

    def expand(
        self,
        count: int | None = None,
        *,
        seed: int = 0,
        remove_duplicates: bool = False,
        allow_fewer: bool = False,
        label: Label = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Case]:
        """All combinations of slot entries in order, or ``count`` different ones drawn with ``seed``.

        ``remove_duplicates`` drops cases in which two draws of one lexicon are the same, and repeated texts.
        ``label`` is a constant, a function of the slots, or the text ``"{slot.field}"``, which means that
        part of the entry. ``name`` (by default the text) starts each case's id; ``metadata`` is kept on each.

        Raises :class:`TemplateError` if there are fewer than ``count`` cases (unless ``allow_fewer``), none
        at all, or more than a million without ``count``.
        """
        self._check_request(count)
        maker = _CaseMaker(self, name or " / ".join(self.texts), _label_function(label), dict(metadata or {}))
        found: list[Case] = []
        seen: set[tuple[str, ...]] = set()
        for chunk in flat_indices(self.size, count=count, seed=seed):
            for case in maker.cases(chunk, distinct_draws=remove_duplicates):
                if remove_duplicates:
                    if case.texts in seen:
                        continue
                    seen.add(case.texts)
                found.append(case)
            if count is not None and len(found) >= count:
                return found[:count]
        self._check_yield(len(found), count, allow_fewer)
        return found

    def _check_request(self, count: int | None) -> None:
        if count is not None and count < 1:
            raise TemplateError(f"count must be 1 or more, got {count}")
        if "mask" in self.slots and "mask" not in self.entries:
            raise TemplateError(f"{self!r}: {{mask}} has no lexicon; get one from suggest(model, '{{mask}}')")
        if count is None and self.size > FULL_LIMIT:
            raise TemplateError(f"{self!r} has {self.size:,} combinations; give count= to sample from them")

    def _check_yield(self, found: int, count: int | None, allow_fewer: bool) -> None:
        sizes = ", ".join(f"{slot} {len(entries)}" for slot, entries in self.entries.items())
        if found == 0:
            raise TemplateError(f"{self!r} makes no case without duplicates (entries: {sizes}); add entries")
        if count is not None and not allow_fewer:
            raise TemplateError(
                f"{self!r} can make only {found} of {count} cases (entries: {sizes}); "
                f"add entries, ask for {found}, or pass allow_fewer=True"
            )

    def same_lexicon(self) -> Iterator[tuple[int, int]]:
        """Positions of slots that are draws from one lexicon, pairwise."""
        sources = [self._source(slot) for slot in self.entries]
        return ((i, j) for i, j in pairs_of(range(len(sources)), 2) if sources[i] == sources[j])

    def render(
        self, columns: Sequence[Int[np.ndarray, " case"]], references: Sequence[Reference]
    ) -> list[list[str]]:
        """For each reference its text in each case; ``columns`` holds entry indices, one column a slot."""
        position = {slot: column for column, slot in enumerate(self.entries)}
        rendered = []
        for reference in references:
            texts = np.array(
                [reference.render(entry) for entry in self.entries[reference.slot]], dtype=object
            )
            rendered.append(texts[columns[position[reference.slot]]].tolist())
        return rendered

    def texts_of(self, columns: Sequence[Int[np.ndarray, " case"]], count: int) -> list[tuple[str, ...]]:
        """The texts of ``count`` cases whose entry indices are ``columns``."""
        by_text = []
        for pattern, references in zip(self._patterns, self._references, strict=True):
            if references:
                by_text.append(
                    [pattern % words for words in zip(*self.render(columns, references), strict=True)]
                )
            else:
                by_text.append([pattern % ()] * count)
        return list(zip(*by_text, strict=True))

    def suggest(
        self,
        model: LoadedModel,
        slot: str = "{mask}",
        *,
        count: int = 20,
        contexts: int = 20,
        pieces: int = 1,
        seed: int = 0,
    ) -> list[Suggestion]:
        """Words that a masked model puts in ``slot``, most probable first.

        A word's score is its mean log-probability over ``contexts`` samples of the other slots; with
        ``pieces`` above 1, words of that many sub-words are found by beam search from left to right.
        Raises :class:`~workbench.errors.ModelError` for a model that is not masked and
        :class:`TemplateError` for a slot that the template lacks.
        """
        from challenge_sets.templates.suggestions import MARK, suggest

        if min(count, contexts, pieces) < 1:
            raise TemplateError(
                f"count, contexts and pieces must be 1 or more, got {count}, {contexts}, {pieces}"
            )
        return suggest(model, self._marked(slot, MARK, contexts, seed), count=count, pieces=pieces)

    def _marked(self, slot: str, mark: str, count: int, seed: int) -> list[str]:
        """Up to ``count`` texts in which ``slot`` holds ``mark`` and the other slots their entries."""
        name = parse_reference(slot.strip("{}"), f"slot {slot!r}").slot
        if name not in self.slots:
            raise TemplateError(f"{self!r} has no slot {slot!r}; slots: {', '.join(self.slots)}")
        # Lexicons named by slot, so that each draw keeps its own.
        others = {key: entries for key, entries in self.entries.items() if key != name}
        marked = Template(self.texts, **others, **{name: [mark]})
        return [" ".join(case.texts) for case in marked.expand(min(count, marked.size), seed=seed)]


def _label_function(label: Label) -> Callable[[Mapping[str, Any]], Any] | object:
    match = _ONE_REFERENCE.fullmatch(label) if isinstance(label, str) else None
    if match is None:
        return label
    reference = parse_reference(match[1], f"label {label!r}")

    def from_slot(slots: Mapping[str, Any]) -> Any:
        if reference.slot not in slots:
            near = did_you_mean(reference.slot, list(slots))
            raise TemplateError(f"label {label!r}: the template has no slot {reference.slot!r}; {near}")
        return reference.raw(slots[reference.slot])

    return from_slot


class _CaseMaker(NamedTuple):
    """Turns combination numbers into cases of one template."""

    template: Template
    name: str
    label: Callable[[Mapping[str, Any]], Any] | object
    metadata: Mapping[str, Any]

    def cases(self, flat: Sequence[int], *, distinct_draws: bool) -> Iterator[Case]:
        """The cases with these numbers, without those in which two draws of one lexicon are equal if asked."""
        entries = self.template.entries
        columns = combinations(flat, [len(values) for values in entries.values()])
        numbers = np.asarray(flat, dtype=object)
        if distinct_draws:
            keep = np.ones(len(flat), dtype=bool)
            for i, j in self.template.same_lexicon():
                keep &= columns[i] != columns[j]
            columns, numbers = [column[keep] for column in columns], numbers[keep]
        names, label, name, metadata = tuple(entries), self.label, self.name, self.metadata
        texts = self.template.texts_of(columns, len(numbers))
        raw = [
            _objects(values)[column].tolist()
            for values, column in zip(entries.values(), columns, strict=True)
        ]
        values = list(zip(*raw, strict=True)) if raw else [()] * len(numbers)
        for number, text, drawn in zip(numbers.tolist(), texts, values, strict=True):
            answer = label(dict(zip(names, drawn, strict=True))) if callable(label) else label
            yield Case(f"{name}#{number}", text, answer, name, names, drawn, metadata)


def _objects(values: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.object_]]:
    """An array whose elements are the values themselves, tuples and lists included."""
    array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return array
