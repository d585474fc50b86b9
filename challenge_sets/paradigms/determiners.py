"""Agreement between a determiner and its noun."""

from __future__ import annotations

from challenge_sets.paradigms.words import PEOPLE, Contrast, other, sentence, someone
from workbench.data.grammar import (
    Noun,
    Number,
    Sampler,
    Verb,
    adjective_class,
    adjectives,
    nouns,
    regular_plural,
    verbs,
)

__all__ = ["determiner", "irregular_noun", "noun", "noun_behind_adjective", "quantifier"]

_DEMONSTRATIVES: dict[Number, tuple[str, ...]] = {"Sing": ("this", "that"), "Plur": ("these", "those")}
_OTHER = {"this": "these", "that": "those", "these": "this", "those": "that"}
_QUANTIFIERS: dict[Number, tuple[str, ...]] = {
    "Sing": ("each", "every", "another"),
    "Plur": ("many", "several", "few", "both", "two", "five"),
}


def _verbs() -> list[Verb]:
    return [v for v in verbs("transitive") if "person" in v.subjects and not v.only]


def _fits(found: Noun, verb: Verb) -> bool:
    return found.kind in verb.objects or (found.kind in PEOPLE and "person" in verb.objects)


def _frame(sampler: Sampler) -> tuple[str, Noun, Number]:
    """*Alice carried*, a noun that can follow, and a number for it."""
    verb = sampler.pick(_verbs())
    found = sampler.pick(nouns(sampler.pick(verb.objects)))
    return f"{someone(sampler, beside=found).text} {verb.past}", found, sampler.pick(("Sing", "Plur"))


def noun(sampler: Sampler) -> Contrast:
    """*Alice carried this lamp / lamps.*"""
    start, found, number = _frame(sampler)
    start = f"{start} {sampler.pick(_DEMONSTRATIVES[number])}"
    return Contrast(
        sentence(start, found.form(number)), sentence(start, found.form(other(number))), {"number": number}
    )


def determiner(sampler: Sampler) -> Contrast:
    """*Alice carried these / this lamps.*"""
    start, found, number = _frame(sampler)
    good = sampler.pick(_DEMONSTRATIVES[number])
    text = found.form(number)
    return Contrast(sentence(start, good, text), sentence(start, _OTHER[good], text), {"number": number})


def noun_behind_adjective(sampler: Sampler) -> Contrast:
    """*Alice carried these heavy lamps / lamp.*"""
    start, found, number = _frame(sampler)
    adjective = sampler.pick(adjectives(adjective_class(found))).text
    start = f"{start} {sampler.pick(_DEMONSTRATIVES[number])} {adjective}"
    return Contrast(
        sentence(start, found.form(number)), sentence(start, found.form(other(number))), {"number": number}
    )


def irregular_noun(sampler: Sampler) -> Contrast:
    """*Alice saw those mice / mouse.*"""
    found = sampler.pick([n for n in nouns() if n.plural != regular_plural(n.singular)])
    verb = sampler.pick([v for v in _verbs() if _fits(found, v)])
    number: Number = sampler.pick(("Sing", "Plur"))
    start = f"{someone(sampler, beside=found).text} {verb.past} {sampler.pick(_DEMONSTRATIVES[number])}"
    return Contrast(
        sentence(start, found.form(number)), sentence(start, found.form(other(number))), {"number": number}
    )


def quantifier(sampler: Sampler) -> Contrast:
    """*Alice carried several lamps / lamp.*"""
    start, found, number = _frame(sampler)
    word = sampler.pick(_QUANTIFIERS[number])
    start = f"{start} {word}"
    return Contrast(
        sentence(start, found.form(number)),
        sentence(start, found.form(other(number))),
        {"number": number, "quantifier": word},
    )
