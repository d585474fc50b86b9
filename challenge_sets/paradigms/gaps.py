"""Filler-gap dependencies: a fronted *what* needs a gap, and a gap needs a *what*."""

from __future__ import annotations

from challenge_sets.paradigms.words import Contrast, inanimate_object_verbs, people, sentence, someone, thing
from workbench.data.grammar import Sampler, verbs

__all__ = ["adjunct_island", "gap_needs_filler", "gap_needs_filler_far", "no_gap_no_filler"]


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
