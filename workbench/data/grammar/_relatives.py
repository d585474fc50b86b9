"""Relative clauses, which put nouns of another number between a subject and its verb."""

from __future__ import annotations

from dataclasses import replace

from workbench.data.grammar._lexicon import PEOPLE, Noun, Verb, verbs
from workbench.data.grammar._nominals import Nominal, nominal
from workbench.data.grammar._tree import Node, Sampler, node
from workbench.data.grammar._verbs import Agreement, Form, VerbGroup, verb_group

__all__ = ["with_relative"]

_FORMS = (Form.PAST, Form.PAST, Form.PRESENT, Form.PERFECT)


def _fits(verb: Verb, noun: Noun, kinds: tuple[str, ...]) -> bool:
    if verb.only and noun.singular not in verb.only:
        return False
    return noun.kind in kinds or (noun.kind in PEOPLE and "person" in kinds)


def _relative_pronoun(sampler: Sampler, noun: Noun, deprel: str) -> Node:
    text = sampler.pick(("who", "that") if noun.kind in PEOPLE else ("which", "that"))
    return node(text, "PRON", deprel, PronType="Rel")


def _head(group: VerbGroup) -> Node:
    assert group.main is not None
    return group.main.as_relation("acl:relcl")


def _subject_relative(sampler: Sampler, head: Nominal, noun: Noun) -> Node | None:
    """*that likes the senators*: the verb agrees with the noun outside."""
    # "only" limits a verb's objects, not its subjects.
    options = [v for v in verbs("transitive") if _fits(replace(v, only=()), noun, v.subjects)]
    if not options:
        return None
    verb = sampler.pick(options)
    group = verb_group(sampler, verb, Agreement(head.person, head.number), sampler.pick(_FORMS))
    inner = nominal(sampler, verb.objects, subject=False, only=verb.only, beside=head, modified=0.0)
    clause = _head(group).with_before(_relative_pronoun(sampler, noun, "nsubj"), *group.before)
    return clause.with_after(inner.node.as_relation("obj"))


def _object_relative(sampler: Sampler, head: Nominal, noun: Noun) -> Node | None:
    """*(that) the senators like*: the verb agrees with the noun inside."""
    options = [v for v in verbs("transitive") if "person" in v.subjects and _fits(v, noun, v.objects)]
    if not options:
        return None
    verb = sampler.pick(options)
    inner = nominal(sampler, ("person",), subject=True, beside=head, modified=0.0, negative=False)
    group = verb_group(sampler, verb, Agreement(inner.person, inner.number), sampler.pick(_FORMS))
    pronoun = _relative_pronoun(sampler, noun, "obj") if sampler.chance(0.7) else None
    if pronoun and inner.node.first.form == pronoun.form:  # no "that that"
        pronoun = None
    return _head(group).with_before(pronoun, inner.node.as_relation("nsubj"), *group.before)


def with_relative(sampler: Sampler, head: Nominal, chance: float) -> Nominal:
    """``head`` with a relative clause at the given chance; names and pronouns take none."""
    if head.noun is None or head.node.after or not sampler.chance(chance):
        return head
    rule = sampler.pick(("subject", "object"))
    if rule == "subject":
        clause = _subject_relative(sampler, head, head.noun)
    else:
        clause = _object_relative(sampler, head, head.noun)
    return replace(head, node=head.node.with_after(clause))
