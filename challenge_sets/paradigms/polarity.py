"""Negative polarity items: *ever* and *any* need a licensor that commands them."""

from __future__ import annotations

from challenge_sets.paradigms.words import (
    Contrast,
    clear_name,
    inanimate_object_verbs,
    phrase,
    sentence,
    thing,
)
from workbench.data.grammar import Sampler, verbs

__all__ = ["any_under_negation", "ever_in_scope", "ever_under_no", "ever_under_only"]


def _done(sampler: Sampler) -> str:
    """*visited the museum*: what someone has (ever) done."""
    verb = sampler.pick(inanimate_object_verbs())
    return f"{verb.participle} {thing(sampler, verb).text}"


def ever_under_no(sampler: Sampler) -> Contrast:
    """*No / Some senators have ever visited the museum.*"""
    plural = phrase(sampler, "person", number="Plur").text.removeprefix("the ")
    rest = f"{plural} have ever {_done(sampler)}"
    positive = sampler.pick(("some", "many", "these"))
    return Contrast(
        sentence("no", rest), sentence(positive, rest), {"licensor": "no", "replaced_by": positive}
    )


def any_under_negation(sampler: Sampler) -> Contrast:
    """*The senator has not / already bought any lamps.*"""
    subject = phrase(sampler, "person") if sampler.chance(0.6) else clear_name(sampler)
    verb = sampler.pick(inanimate_object_verbs(obligatory=True))
    things = thing(sampler, verb, "Plur").text.removeprefix("the ")
    has = "has" if subject.number == "Sing" else "have"
    rest = f"{verb.participle} any {things}"
    positive = sampler.pick(("already", "now", "also"))
    return Contrast(
        sentence(subject.text, has, "not", rest),
        sentence(subject.text, has, positive, rest),
        {"licensor": "not", "replaced_by": positive},
    )


def ever_under_only(sampler: Sampler) -> Contrast:
    """*Only / Even the senator has ever visited the museum.*"""
    subject = phrase(sampler, "person") if sampler.chance(0.6) else clear_name(sampler)
    has = "has" if subject.number == "Sing" else "have"
    rest = f"{subject.text} {has} ever {_done(sampler)}"
    return Contrast(
        sentence("only", rest), sentence("even", rest), {"licensor": "only", "replaced_by": "even"}
    )


def ever_in_scope(sampler: Sampler) -> Contrast:
    """*No boys that the kings praised have ever slept* against *The boys that no kings praised have ever slept*."""
    outer = phrase(sampler, "person", number="Plur")
    inner = phrase(sampler, "person", number="Plur", beside=outer.noun)
    verb = sampler.pick([v for v in verbs("transitive") if "person" in v.subjects and "person" in v.objects])
    rest = f"{verb.past} have ever {_done(sampler)}"
    outer_noun, inner_noun = outer.text.removeprefix("the "), inner.text.removeprefix("the ")
    return Contrast(
        sentence("no", outer_noun, "that the", inner_noun, rest),
        sentence("the", outer_noun, "that no", inner_noun, rest),
        {"licensor": "no", "distractor": "relative"},
    )
