"""Words and phrases that the generated paradigms share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from workbench.data.grammar import (
    NUMBERS,
    Name,
    Noun,
    Number,
    Sampler,
    Verb,
    adjective_class,
    adjectives,
    names,
    nouns,
    verbs,
)

__all__ = [
    "PEOPLE",
    "Contrast",
    "Phrase",
    "Predicate",
    "clear_name",
    "inanimate_object_verbs",
    "other",
    "people",
    "phrase",
    "predicate",
    "sentence",
    "someone",
    "thing",
]

PEOPLE = ("person", "man", "woman", "profession")
# Names that few readers would give another gender.
_CLEAR_ORIGINS = ("english", "hispanic")


@dataclass(frozen=True)
class Contrast:
    """The two members of a pair before they get an id."""

    good: str
    bad: str
    metadata: Mapping[str, str] = field(default_factory=dict)


class Phrase(NamedTuple):
    """A noun phrase: its text, number and noun (None for a name), and the gender where the word has one."""

    text: str
    number: Number
    noun: Noun | None = None
    gender: str | None = None


class Predicate(NamedTuple):
    """A verb phrase in two forms that differ in the number of one word."""

    singular: str
    plural: str

    def agreeing(self, number: Number) -> str:
        """The form for a subject of that number."""
        return self.singular if number == "Sing" else self.plural

    def clashing(self, number: Number) -> str:
        """The form for a subject of the other number."""
        return self.plural if number == "Sing" else self.singular


def other(number: Number) -> Number:
    """The number that ``number`` is not."""
    return "Plur" if number == "Sing" else "Sing"


def sentence(*parts: str, end: str = ".") -> str:
    """The parts with spaces between, a capital at the start and ``end`` behind."""
    text = " ".join(part for part in parts if part)
    return text[:1].upper() + text[1:] + end


def phrase(sampler: Sampler, *kinds: str, number: Number | None = None, beside: Noun | None = None) -> Phrase:
    """*the boys*: a definite noun phrase of one of ``kinds``, with another noun than ``beside``."""
    chosen = sampler.pick(NUMBERS) if number is None else number
    options = nouns(sampler.pick(kinds))
    noun = sampler.pick(options if beside is None else [n for n in options if n != beside])
    return Phrase(f"the {noun.form(chosen)}", chosen, noun, noun.gender)


def clear_name(sampler: Sampler, gender: str | None = None) -> Phrase:
    """A first name whose gender is clear."""
    name = sampler.pick(_clear_names(gender))
    return Phrase(name.text, "Sing", None, name.gender)


@cache
def _clear_names(gender: str | None) -> list[Name]:
    return [n for n in names() if n.origin in _CLEAR_ORIGINS and gender in (None, n.gender)]


def someone(sampler: Sampler, beside: Noun | None = None) -> Phrase:
    """A person: a name or a definite noun phrase."""
    return clear_name(sampler) if sampler.chance(0.4) else phrase(sampler, "person", beside=beside)


def people(sampler: Sampler, count: int) -> list[str]:
    """The texts of ``count`` people, all different."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[someone(sampler).text] = None
    return list(found)


def predicate(sampler: Sampler, noun: Noun) -> Predicate:
    """What one can say of ``noun`` in the present: *laughs*, *is kind*, *has disappeared*."""
    fitting = [
        v
        for v in verbs("intransitive")
        if (noun.kind in v.subjects or (noun.kind in PEOPLE and "person" in v.subjects))
        and (not v.only or noun.singular in v.only)
    ]
    verbal = ("verb", "perfect") if fitting else ()
    choice = sampler.pick((*verbal, "adjective", "past adjective"))
    if choice == "verb":
        verb = sampler.pick(fitting)
        return Predicate(verb.third, verb.lemma)
    if choice == "perfect":
        verb = sampler.pick(fitting)
        return Predicate(f"has {verb.participle}", f"have {verb.participle}")
    adjective = sampler.pick(adjectives(adjective_class(noun))).text
    if choice == "adjective":
        return Predicate(f"is {adjective}", f"are {adjective}")
    return Predicate(f"was {adjective}", f"were {adjective}")


@cache
def inanimate_object_verbs(*, obligatory: bool = False) -> list[Verb]:
    """Verbs with a human subject and a thing as object; with ``obligatory``, those that cannot lose it."""
    animate = {*PEOPLE, "animal"}
    return [
        verb
        for verb in verbs("transitive")
        if "person" in verb.subjects and set(verb.objects) - animate and (verb.obligatory or not obligatory)
    ]


def thing(sampler: Sampler, verb: Verb, number: Number | None = None) -> Phrase:
    """An inanimate object that fits ``verb``."""
    kinds = [kind for kind in verb.objects if kind not in (*PEOPLE, "animal")]
    chosen = sampler.pick(NUMBERS) if number is None else number
    noun = sampler.pick([n for n in nouns(sampler.pick(kinds)) if not verb.only or n.singular in verb.only])
    return Phrase(f"the {noun.form(chosen)}", chosen, noun)
