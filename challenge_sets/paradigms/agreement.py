"""Agreement: of a verb with its subject, over nouns of either number, and of a determiner with its noun."""

from __future__ import annotations

from functools import cache

from challenge_sets.paradigms.words import (
    PEOPLE,
    Contrast,
    Phrase,
    Predicate,
    inanimate_object_verbs,
    other,
    phrase,
    predicate,
    sentence,
    someone,
    thing,
)
from workbench.data.grammar import (
    Noun,
    Number,
    Sampler,
    Verb,
    adjective_class,
    adjectives,
    modifiers,
    nouns,
    regular_plural,
    verbs,
)

__all__ = [
    "coordinated_verbs",
    "determiner",
    "inside_object_relative",
    "irregular_noun",
    "noun",
    "noun_behind_adjective",
    "object_relative",
    "prepositional",
    "quantifier",
    "simple",
    "subject_relative",
]

_KINDS = ("person", "person", "person", "animal", "object", "document", "building", "vehicle")


def _contrast(subject: Phrase, between: str, rest: Predicate, attractor: Phrase | None = None) -> Contrast:
    metadata: dict[str, str] = {"subject_number": subject.number}
    if attractor:
        metadata |= {
            "attractor_number": attractor.number,
            "attractor": str(attractor.number != subject.number).lower(),
        }
    number = subject.number
    return Contrast(
        sentence(subject.text, between, rest.agreeing(number)),
        sentence(subject.text, between, rest.clashing(number)),
        metadata,
    )


def _noun(subject: Phrase) -> Noun:
    assert subject.noun is not None
    return subject.noun


def simple(sampler: Sampler) -> Contrast:
    """*The senators laugh.*"""
    subject = phrase(sampler, *_KINDS)
    return _contrast(subject, "", predicate(sampler, _noun(subject)))


def prepositional(sampler: Sampler) -> Contrast:
    """*The key on the tables is rusty.*"""
    subject = phrase(sampler, *_KINDS)
    preposition, kind = sampler.pick(modifiers(_noun(subject)))
    attractor = phrase(sampler, kind, beside=subject.noun)
    return _contrast(
        subject, f"{preposition} {attractor.text}", predicate(sampler, _noun(subject)), attractor
    )


def _about_people() -> list[Verb]:
    """Verbs between people, without those that take a bare infinitive: *saw the boy laugh* is no clash."""
    taken = [v for v in verbs("transitive") if "person" in v.subjects and "person" in v.objects]
    return [v for v in taken if v.lemma not in ("see", "help")]


def subject_relative(sampler: Sampler) -> Contrast:
    """*The senator that praised the boys laughs.* The relative clause is in the past, which shows no number."""
    subject = phrase(sampler, "person")
    attractor = phrase(sampler, "person", beside=subject.noun)
    verb = sampler.pick(_about_people())
    between = f"{sampler.pick(('that', 'who'))} {verb.past} {attractor.text}"
    return _contrast(subject, between, predicate(sampler, _noun(subject)), attractor)


def object_relative(sampler: Sampler) -> Contrast:
    """*The senator that the boys praised laughs.*"""
    subject = phrase(sampler, "person")
    attractor = phrase(sampler, "person", beside=subject.noun)
    relative = sampler.pick(("that ", "who ", ""))
    between = f"{relative}{attractor.text} {sampler.pick(_about_people()).past}"
    return _contrast(subject, between, predicate(sampler, _noun(subject)), attractor)


def inside_object_relative(sampler: Sampler) -> Contrast:
    """*The senator that the boys praise laughed*: the verb inside agrees with the nearer noun."""
    outer = phrase(sampler, "person")
    inner = phrase(sampler, "person", beside=outer.noun)
    verb = sampler.pick(_about_people())
    last = sampler.pick([v for v in verbs("intransitive") if "person" in v.subjects]).past
    forms = Predicate(verb.third, verb.lemma)
    start = f"{outer.text} that {inner.text}"
    return Contrast(
        sentence(start, forms.agreeing(inner.number), last),
        sentence(start, forms.clashing(inner.number), last),
        {
            "subject_number": inner.number,
            "attractor_number": outer.number,
            "attractor": str(inner.number != outer.number).lower(),
        },
    )


def coordinated_verbs(sampler: Sampler) -> Contrast:
    """*The senator laughs near the boys and admires the statue*: the second verb agrees across the first.

    Its object rules out the reading in which *laughs* and the like are nouns beside *the boys*.
    """
    subject = phrase(sampler, "person")
    attractor = phrase(sampler, "person", beside=subject.noun)
    first = sampler.pick([v for v in verbs("intransitive") if "person" in v.subjects])
    second = sampler.pick(inanimate_object_verbs())
    start = Predicate(first.third, first.lemma).agreeing(subject.number)
    between = f"{start} {sampler.pick(('near', 'behind', 'beside'))} {attractor.text} and"
    target = thing(sampler, second).text
    return _contrast(
        subject, between, Predicate(f"{second.third} {target}", f"{second.lemma} {target}"), attractor
    )


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


@cache
def _irregular_nouns() -> list[Noun]:
    return [n for n in nouns() if n.plural != regular_plural(n.singular)]


def irregular_noun(sampler: Sampler) -> Contrast:
    """*Alice saw those mice / mouse.*"""
    found = sampler.pick(_irregular_nouns())
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
