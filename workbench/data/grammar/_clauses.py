"""Statements: a subject, a verb group that agrees with it, and the verb's complements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from workbench.data.grammar import _adjuncts as adjuncts
from workbench.data.grammar._lexicon import PEOPLE, Noun, Verb, adjectives, nouns, read_lexicon, verbs
from workbench.data.grammar._nominals import (
    Nominal,
    adjective_class,
    coordinated,
    nominal,
    noun_phrase,
    prepositional,
)
from workbench.data.grammar._tree import Node, Sampler, node
from workbench.data.grammar._verbs import BE, Agreement, Form, VerbGroup, choose_form, verb_group

__all__ = [
    "CLAUSES",
    "Clause",
    "agreement",
    "declarative",
    "simple_clause",
    "subject_of",
    "with_object",
    "with_relative",
]

_FORMS = (Form.PAST, Form.PAST, Form.PRESENT, Form.PERFECT)


def _fits(verb: Verb, noun: Noun, kinds: tuple[str, ...]) -> bool:
    if verb.only and noun.singular not in verb.only:
        return False
    return noun.kind in kinds or (noun.kind in PEOPLE and "person" in kinds)


def _relative_pronoun(sampler: Sampler, noun: Noun, deprel: str) -> Node:
    text = sampler.pick(("who", "that") if noun.kind in PEOPLE else ("which", "that"))
    return node(text, "PRON", deprel, PronType="Rel")


def _relative_head(group: VerbGroup) -> Node:
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
    clause = _relative_head(group).with_before(_relative_pronoun(sampler, noun, "nsubj"), *group.before)
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
    return _relative_head(group).with_before(pronoun, inner.node.as_relation("nsubj"), *group.before)


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


_NEGATED_SHARE = 0.16


@dataclass(frozen=True)
class Clause:
    """A clause without its punctuation, with its tense and aspect and the subject it agrees with."""

    node: Node
    form: Form
    subject: Nominal


def agreement(subject: Nominal) -> Agreement:
    """What a verb takes from its subject."""
    return Agreement(subject.person, subject.number)


def subject_of(
    sampler: Sampler, kinds: tuple[str, ...], *, only: tuple[str, ...] = (), relative: float = 0.12
) -> Nominal:
    """A subject, at times modified by a relative clause or made of two coordinated people."""
    subject = nominal(sampler, kinds, subject=True, only=only)
    if "person" in kinds and subject.noun is None and subject.number == "Sing" and sampler.chance(0.3):
        second = nominal(sampler, ("profession", "woman", "man"), subject=True, modified=0.0, negative=False)
        if subject.node.feats and subject.node.upos == "PROPN":
            return coordinated(subject, second)
    return with_relative(sampler, subject, relative)


def declarative(head: Node, subject: Nominal, group: VerbGroup, deprel: str = "nsubj") -> Node:
    """Subject, auxiliaries and adverb in front of the clause's head, a verb or a predicate."""
    return head.with_before(subject.node.as_relation(deprel), *group.before)


def _negate(sampler: Sampler, subject: Nominal, *others: Nominal) -> bool:
    """Whether to negate the verb: never beside *no* or *few*, nor under a quantified subject."""
    return subject.definite and not any(part.negative for part in others) and sampler.chance(_NEGATED_SHARE)


def _finish(sampler: Sampler, head: Node, verb: Verb, group: VerbGroup, *, place: float = 0.15) -> Node:
    """Adjuncts behind the verb's own arguments: manner, place, time."""
    if verb.stative:
        return head
    how_fits = group.negation is None and "person" in verb.subjects
    how = adjuncts.manner(sampler) if how_fits and sampler.chance(0.1) else None
    where = adjuncts.place(sampler) if sampler.chance(place) else None
    when = adjuncts.time(sampler, group.form) if not group.adverb and sampler.chance(0.3) else None
    return head.with_after(how, where, when)


def with_object(sampler: Sampler, verb: Verb, subject: Nominal, *, relative: float = 0.08) -> Nominal:
    """An object that the verb allows, other than its subject."""
    found = nominal(
        sampler,
        verb.objects,
        subject=False,
        only=verb.only,
        beside=subject,
        modified=0.15,
        negative=not subject.negative,
    )
    return with_relative(sampler, found, relative)


def _group(
    sampler: Sampler, verb: Verb, subject: Nominal, *others: Nominal, passive: bool = False
) -> VerbGroup:
    """A verb group, with an adverb of frequency now and then where it is a plain present."""
    form = choose_form(sampler, verb)
    if passive and form in (Form.PROGRESSIVE, Form.PAST_PROGRESSIVE):
        form = Form.PAST
    negated = _negate(sampler, subject, *others)
    group = verb_group(sampler, verb, agreement(subject), form, negated=negated, passive=passive)
    plain = form is Form.PRESENT and not (verb.stative or negated or passive)
    if plain and not any(part.negative for part in (subject, *others)) and sampler.chance(0.2):
        return replace(group, adverb=adjuncts.frequency(sampler))
    return group


def _head(group: VerbGroup) -> Node:
    assert group.main is not None
    return group.main


def transitive(sampler: Sampler) -> Clause:
    """*The boys near the car admire the old painting.*"""
    verb = sampler.pick(verbs("transitive"))
    subject = subject_of(sampler, (sampler.pick(verb.subjects),))
    target = with_object(sampler, verb, subject)
    group = _group(sampler, verb, subject, target)
    head = declarative(_head(group), subject, group).with_after(target.node.as_relation("obj"))
    return Clause(_finish(sampler, head, verb, group), group.form, subject)


def intransitive(sampler: Sampler) -> Clause:
    """*The tourists arrived yesterday.*"""
    verb = sampler.pick(verbs("intransitive"))
    subject = subject_of(sampler, (sampler.pick(verb.subjects),), only=verb.only)
    group = _group(sampler, verb, subject)
    head = declarative(_head(group), subject, group)
    return Clause(_finish(sampler, head, verb, group, place=0.35), group.form, subject)


def ditransitive(sampler: Sampler) -> Clause:
    """*The teacher gave the boy a book*, or *a book to the boy*."""
    verb = sampler.pick(verbs("ditransitive"))
    subject = subject_of(sampler, ("person",))
    gift = nominal(sampler, verb.objects, subject=False, modified=0.1, negative=not subject.negative)
    receiver = nominal(sampler, ("person",), subject=False, beside=subject, modified=0.0, negative=False)
    group = _group(sampler, verb, subject, gift)
    head = declarative(_head(group), subject, group)
    if sampler.chance(0.5):
        head = head.with_after(receiver.node.as_relation("iobj"), gift.node.as_relation("obj"))
    else:
        to = prepositional("to", receiver.node, "obl")
        head = head.with_after(gift.node.as_relation("obj"), to)
    return Clause(_finish(sampler, head, verb, group, place=0.0), group.form, subject)


def passive(sampler: Sampler) -> Clause:
    """*The letter was signed by the lawyers.*"""
    options = [v for v in verbs("transitive") if not v.stative]
    verb = sampler.pick(options)
    subject = nominal(sampler, verb.objects, subject=True, only=verb.only)
    group = _group(sampler, verb, subject, passive=True)
    agent = nominal(
        sampler, (sampler.pick(verb.subjects),), subject=False, beside=subject, modified=0.1, negative=False
    )
    by = prepositional("by", agent.node, "obl:agent") if sampler.chance(0.6) else None
    head = declarative(_head(group), subject, group, "nsubj:pass").with_after(by)
    return Clause(_finish(sampler, head, verb, group), group.form, subject)


def copular_adjective(sampler: Sampler) -> Clause:
    """*The keys on the table are very old.*"""
    kind = sampler.pick(
        ("person", "person", "animal", "food", "object", "building", "document", "idea", "event", "clothing")
    )
    subject = subject_of(sampler, (kind,))
    adjective_kind = adjective_class(subject.noun) if subject.noun else "person"
    head = node(sampler.pick(adjectives(adjective_kind)).text, "ADJ", "root", Degree="Pos")
    group = _group(sampler, BE, subject)
    if sampler.chance(0.35):
        degrees = ("very", "particularly") if group.negation else read_lexicon("words")["degree"]
        head = head.with_before(node(sampler.pick(degrees), "ADV", "advmod"))
    return Clause(declarative(head, subject, group), group.form, subject)


def copular_noun(sampler: Sampler) -> Clause:
    """*Maria is a lawyer*; the predicate agrees in number."""
    subject = subject_of(sampler, ("person",), relative=0.0)
    number = subject.number
    options = [n for n in nouns("profession") if n != subject.noun]
    if subject.node.form == "you":
        number = "Sing"
    predicate = noun_phrase(
        sampler, sampler.pick(options), number, determiner="a" if number == "Sing" else "", modified=0.0
    )
    group = _group(sampler, BE, subject)
    return Clause(declarative(predicate.node.as_relation("root"), subject, group), group.form, subject)


def copular_place(sampler: Sampler) -> Clause:
    """*The children are in the garden.*"""
    kind = sampler.pick(("person", "animal", "vehicle"))
    subject = nominal(sampler, (kind,), subject=True, modified=0.0)
    group = _group(sampler, BE, subject)
    return Clause(
        declarative(adjuncts.place(sampler).as_relation("root"), subject, group), group.form, subject
    )


CLAUSES: dict[Callable[[Sampler], Clause], float] = {
    transitive: 38,
    intransitive: 18,
    ditransitive: 8,
    passive: 10,
    copular_adjective: 14,
    copular_noun: 6,
    copular_place: 6,
}


def simple_clause(sampler: Sampler) -> Clause:
    """A statement with one verb, of any of the kinds above."""
    return sampler.weighted(CLAUSES)(sampler)
