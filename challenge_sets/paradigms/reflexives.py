"""Reflexive pronouns: number, gender, and which noun may bind them."""

from __future__ import annotations

from challenge_sets.paradigms.words import Contrast, Phrase, clear_name, phrase, sentence
from workbench.data.grammar import Number, Sampler, verbs

__all__ = ["across_clause", "across_possessor", "across_preposition", "across_relative", "gender", "number"]

_SINGULAR = {"female": "herself", "male": "himself"}
_KIND = {"female": "woman", "male": "man"}
_KIN = {
    "female": ("sister", "aunt", "mother", "grandmother", "daughter"),
    "male": ("brother", "uncle", "father", "grandfather", "son"),
}
_OPPOSITE = {"female": "male", "male": "female"}


def _verb(sampler: Sampler) -> str:
    return sampler.pick(verbs("reflexive")).past


def _gendered(sampler: Sampler, gender_: str, *, number: Number = "Sing", names: bool = True) -> Phrase:
    if names and number == "Sing" and sampler.chance(0.4):
        return clear_name(sampler, gender_)
    return phrase(sampler, _KIND[gender_], number=number)


def _either(sampler: Sampler) -> str:
    return sampler.pick(("female", "male"))


def gender(sampler: Sampler) -> Contrast:
    """*The queen injured herself / himself.*"""
    own = _either(sampler)
    start = f"{_gendered(sampler, own).text} {_verb(sampler)}"
    when = sampler.pick(("", "yesterday", "again", "last week"))
    return Contrast(
        sentence(start, _SINGULAR[own], when),
        sentence(start, _SINGULAR[_OPPOSITE[own]], when),
        {"gender": own},
    )


def _reflexives(subject: Phrase, own: str) -> tuple[str, str]:
    """The reflexive for a subject and the one of the other number."""
    pair = (_SINGULAR[own], "themselves")
    return pair if subject.number == "Sing" else pair[::-1]


def number(sampler: Sampler) -> Contrast:
    """*The queens injured themselves / herself.*"""
    own = _either(sampler)
    subject = _gendered(sampler, own, number=sampler.pick(("Sing", "Plur", "Plur")))
    start, when = f"{subject.text} {_verb(sampler)}", sampler.pick(("", "yesterday", "again", "last week"))
    good, bad = _reflexives(subject, own)
    return Contrast(
        sentence(start, good, when), sentence(start, bad, when), {"subject_number": subject.number}
    )


def across_preposition(sampler: Sampler) -> Contrast:
    """*The king near the waitress injured himself / herself*: the nearer noun does not bind."""
    own = _either(sampler)
    near = _gendered(sampler, _OPPOSITE[own])
    subject = phrase(sampler, _KIND[own], number="Sing")
    start = f"{subject.text} {sampler.pick(('near', 'behind', 'beside'))} {near.text}"
    return _binding(sampler, start, own, "modifier")


def across_possessor(sampler: Sampler) -> Contrast:
    """*Alice's brother injured himself / herself*: a possessor inside the subject does not bind."""
    own_gender = _either(sampler)
    owner = _gendered(sampler, _OPPOSITE[own_gender])
    start = f"{owner.text}'s {sampler.pick(_KIN[own_gender])}"
    return _binding(sampler, start, own_gender, "possessor")


def _binding(sampler: Sampler, start: str, own_gender: str, distractor: str) -> Contrast:
    start = f"{start} {_verb(sampler)}"
    good, bad = _SINGULAR[own_gender], _SINGULAR[_OPPOSITE[own_gender]]
    return Contrast(
        sentence(start, good), sentence(start, bad), {"binder": "subject", "distractor": distractor}
    )


def across_relative(sampler: Sampler) -> Contrast:
    """*The queens that the waiter admired injured themselves / himself.*"""
    inner_gender = _either(sampler)
    outer = phrase(sampler, "person", number="Plur")
    inner = _gendered(sampler, inner_gender)
    about = [v for v in verbs("transitive") if "person" in v.subjects and "person" in v.objects]
    start = f"{outer.text} that {inner.text} {sampler.pick(about).past} {_verb(sampler)}"
    good, bad = "themselves", _SINGULAR[inner_gender]
    return Contrast(
        sentence(start, good), sentence(start, bad), {"binder": "subject", "distractor": "relative"}
    )


def across_clause(sampler: Sampler) -> Contrast:
    """*Alice said that the king injured himself / herself*: the subject of the higher clause does not bind."""
    own_gender = _either(sampler)
    speaker, subject = _gendered(sampler, _OPPOSITE[own_gender]), _gendered(sampler, own_gender)
    start = f"{speaker.text} {sampler.pick(verbs('clausal')).past} that {subject.text}"
    return _binding(sampler, start, own_gender, "higher subject")
