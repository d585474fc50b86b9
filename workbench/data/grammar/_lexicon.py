"""The lexicons behind the grammar: words with the properties that decide which sentences they fit.

The JSON files in ``lexicons/`` hold what cannot be derived; regular forms come from :mod:`._morphology`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from workbench.data.grammar import _morphology as morphology

__all__ = [
    "PEOPLE",
    "Adjective",
    "Name",
    "Noun",
    "Verb",
    "adjectives",
    "names",
    "nouns",
    "read_lexicon",
    "verbs",
]

Gender: TypeAlias = Literal["female", "male"]
Polarity: TypeAlias = Literal["positive", "negative", "neutral"]

PEOPLE = ("person", "man", "woman", "profession")


@dataclass(frozen=True)
class Noun:
    """A count noun; ``kind`` is its class of meaning (``person``, ``food``, ``document``, ...)."""

    singular: str
    plural: str
    kind: str
    animate: bool
    gender: Gender | None = None

    def form(self, number: morphology.Number) -> str:
        """The singular or the plural."""
        return self.singular if number == "Sing" else self.plural


@dataclass(frozen=True)
class Verb:
    """A verb, its five forms, and the kinds of noun it takes as subject and object.

    ``obligatory``: it cannot lose its object, in any reading. ``strict``: it cannot take one.
    ``stative``: no progressive.
    ``question``: it embeds questions. ``only``: the single nouns, of the allowed kinds, that fit.
    """

    lemma: str
    third: str
    past: str
    participle: str
    gerund: str
    frame: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...] = ()
    polarity: Polarity = "neutral"
    obligatory: bool = False
    strict: bool = False
    stative: bool = False
    question: bool = False
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Name:
    """A first name with the gender and the origin it is commonly associated with."""

    text: str
    gender: Gender
    origin: str


@dataclass(frozen=True)
class Adjective:
    """An adjective for one class of noun, with the opinion it carries."""

    text: str
    kind: str
    polarity: Polarity


@cache
def read_lexicon(name: str) -> Any:
    """The parsed ``lexicons/<name>.json``; callers turn it into typed records and must not change it."""
    text = files("workbench.data.grammar").joinpath("lexicons", f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


@cache
def _all_nouns() -> tuple[Noun, ...]:
    found = [Noun(word, morphology.plural(word), "profession", True) for word in read_lexicon("professions")]
    for kind, entry in read_lexicon("nouns").items():
        forms = {word: morphology.plural(word) for word in entry["regular"]} | entry["irregular"]
        found += [
            Noun(singular, plural, kind, entry["animate"], entry.get("gender"))
            for singular, plural in forms.items()
        ]
    return tuple(found)


@cache
def nouns(*kinds: str) -> tuple[Noun, ...]:
    """Nouns of the given kinds (all without any); ``person`` includes men, women and professions."""
    wanted = set(kinds) | set(PEOPLE if "person" in kinds else ())
    return tuple(noun for noun in _all_nouns() if not kinds or noun.kind in wanted)


def _verb(frame: str, entry: dict[str, Any]) -> Verb:
    lemma = entry["lemma"]
    past = entry.get("past", morphology.past(lemma))
    return Verb(
        lemma=lemma,
        third=morphology.third_person(lemma),
        past=past,
        participle=entry.get("participle", past),
        gerund=entry.get("gerund", morphology.gerund(lemma)),
        frame=frame,
        subjects=tuple(entry["subject"]),
        objects=tuple(entry.get("object", ())),
        polarity=entry.get("polarity", "neutral"),
        only=tuple(entry.get("only", ())),
        **{flag: entry.get(flag, False) for flag in ("obligatory", "strict", "stative", "question")},
    )


@cache
def verbs(frame: str) -> tuple[Verb, ...]:
    """Verbs of a frame: transitive, intransitive, ditransitive, clausal, control or reflexive."""
    return tuple(_verb(frame, entry) for entry in read_lexicon("verbs")[frame])


@cache
def names(gender: Gender | None = None, origin: str | None = None) -> tuple[Name, ...]:
    """First names, of one gender or origin if given."""
    return tuple(
        Name(text, of_gender, of_origin)
        for of_origin, by_gender in read_lexicon("names").items()
        for of_gender, texts in by_gender.items()
        for text in texts
        if gender in (None, of_gender) and origin in (None, of_origin)
    )


@cache
def adjectives(kind: str = "general", polarity: Polarity | None = None) -> tuple[Adjective, ...]:
    """Adjectives for one class of noun, of one polarity if given."""
    return tuple(
        Adjective(text, kind, of_polarity)
        for of_polarity, texts in read_lexicon("adjectives")[kind].items()
        for text in texts
        if polarity in (None, of_polarity)
    )
