"""Subject-verb agreement, with nouns of either number between subject and verb."""

from __future__ import annotations

from challenge_sets.paradigms.words import (
    Contrast,
    Phrase,
    Predicate,
    inanimate_object_verbs,
    phrase,
    predicate,
    sentence,
    thing,
)
from workbench.data.grammar import Noun, Sampler, Verb, modifiers, verbs

__all__ = [
    "coordinated_verbs",
    "inside_object_relative",
    "object_relative",
    "prepositional",
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
