"""Argument structure: which verbs take an object, a passive, an infinitive."""

from __future__ import annotations

from challenge_sets.paradigms.words import (
    Contrast,
    clear_name,
    inanimate_object_verbs,
    phrase,
    sentence,
    someone,
    thing,
)
from workbench.data.grammar import Sampler, verbs

__all__ = ["infinitive", "intransitive", "passive", "transitive"]

# Verbs of saying and knowing that take a clause but no infinitive with "to".
_NO_INFINITIVE = ("suspect", "notice", "realize", "discover", "reveal", "believe")
# Verbs that nothing can be made the object of: no *collapse the tent*, no *disappear a critic*.
_NO_OBJECT = ("arrive", "sneeze", "hesitate", "snore", "complain", "yawn", "faint")


def _strict(sampler: Sampler) -> tuple[str, str]:
    """Past and participle of an intransitive verb with human subjects."""
    verb = sampler.pick([v for v in verbs("intransitive") if v.lemma in _NO_OBJECT])
    return verb.past, verb.participle


def transitive(sampler: Sampler) -> Contrast:
    """*The boys carried / sneezed the lamp.*"""
    verb = sampler.pick(inanimate_object_verbs())
    subject, target = someone(sampler).text, thing(sampler, verb).text
    past, _ = _strict(sampler)
    return Contrast(
        sentence(subject, verb.past, target), sentence(subject, past, target), {"verb": verb.lemma}
    )


def intransitive(sampler: Sampler) -> Contrast:
    """*The boys sneezed / carried.*"""
    verb = sampler.pick([v for v in verbs("transitive") if v.obligatory and "person" in v.subjects])
    past, _ = _strict(sampler)
    subject = someone(sampler).text
    when = sampler.pick(("", "yesterday", "last week", "on Friday"))
    return Contrast(sentence(subject, past, when), sentence(subject, verb.past, when), {"verb": verb.lemma})


def passive(sampler: Sampler) -> Contrast:
    """*The lamp was carried / sneezed by the boys.*"""
    verb = sampler.pick([v for v in inanimate_object_verbs() if not v.stative])
    target, agent = thing(sampler, verb), someone(sampler).text
    start = f"{target.text} {'was' if target.number == 'Sing' else 'were'}"
    _, participle = _strict(sampler)
    return Contrast(
        sentence(start, verb.participle, "by", agent),
        sentence(start, participle, "by", agent),
        {"verb": verb.lemma},
    )


def infinitive(sampler: Sampler) -> Contrast:
    """*The boys refused / suspected to carry the lamp.*"""
    verb = sampler.pick([v for v in inanimate_object_verbs() if not v.stative])
    subject = phrase(sampler, "person") if sampler.chance(0.7) else clear_name(sampler)
    rest = f"to {verb.lemma} {thing(sampler, verb).text}"
    good = sampler.pick(verbs("control")).past
    bad = sampler.pick([v for v in verbs("clausal") if v.lemma in _NO_INFINITIVE]).past
    return Contrast(sentence(subject.text, good, rest), sentence(subject.text, bad, rest), {"verb": bad})
