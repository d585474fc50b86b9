"""Dependencies that need a licensor: negative polarity items (*ever*, *any*), and gaps with their fronted *what*."""

from __future__ import annotations

from challenge_sets.paradigms.words import (
    Contrast,
    clear_name,
    inanimate_object_verbs,
    people,
    phrase,
    sentence,
    someone,
    thing,
)
from workbench.data.grammar import Sampler, verbs

__all__ = [
    "adjunct_island",
    "any_under_negation",
    "ever_in_scope",
    "ever_under_no",
    "ever_under_only",
    "gap_needs_filler",
    "gap_needs_filler_far",
    "no_gap_no_filler",
]


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


def _knows(sampler: Sampler, who: str) -> str:
    """*Alice remembered*: a start that may go on with *that* or *what*."""
    return f"{who} {sampler.pick([v for v in verbs('clausal') if v.question]).past}"


def _does(sampler: Sampler, who: str) -> tuple[str, str]:
    """*the boys carried*, with a verb that cannot lose its object, and an object for it."""
    verb = sampler.pick(inanimate_object_verbs(obligatory=True))
    return f"{who} {verb.past}", thing(sampler, verb).text


def gap_needs_filler(sampler: Sampler) -> Contrast:
    """*Alice remembered what / that the boys carried.*"""
    first, second = people(sampler, 2)
    start, (clause, _) = _knows(sampler, first), _does(sampler, second)
    when = sampler.pick(("", "yesterday", "last week", "on Friday"))
    return Contrast(
        sentence(start, "what", clause, when), sentence(start, "that", clause, when), {"gap": "yes"}
    )


def no_gap_no_filler(sampler: Sampler) -> Contrast:
    """*Alice remembered that / what the boys carried the lamp.*"""
    first, second = people(sampler, 2)
    start, (clause, target) = _knows(sampler, first), _does(sampler, second)
    return Contrast(
        sentence(start, "that", clause, target), sentence(start, "what", clause, target), {"gap": "no"}
    )


def gap_needs_filler_far(sampler: Sampler) -> Contrast:
    """*Alice remembered what / that the king said that the boys carried*: the gap is two clauses down."""
    first, second, third = people(sampler, 3)
    start, (clause, _) = _knows(sampler, first), _does(sampler, third)
    bridge = f"{second} {sampler.pick(('said', 'thought', 'believed', 'claimed'))} that {clause}"
    return Contrast(sentence(start, "what", bridge), sentence(start, "that", bridge), {"gap": "yes"})


def adjunct_island(sampler: Sampler) -> Contrast:
    """*What did Alice sell before cleaning the lamp?* against *What did Alice sell the lamp before cleaning?*"""
    first, second = sampler.sample(inanimate_object_verbs(obligatory=True), 2)
    target = thing(sampler, second).text
    who, link = someone(sampler).text, sampler.pick(("before", "after", "without"))
    start = f"what did {who} {first.lemma}"
    return Contrast(
        sentence(start, link, second.gerund, target, end="?"),
        sentence(start, target, link, second.gerund, end="?"),
        {"island": "adjunct"},
    )
