"""Sentences of more than one clause, questions and existentials; and sentences drawn from all constructions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from workbench.data.files import write_text
from workbench.data.grammar import _adjuncts as adjuncts
from workbench.data.grammar import _clauses as clauses
from workbench.data.grammar._clauses import (
    Clause,
    agreement,
    declarative,
    simple_clause,
    subject_of,
    with_object,
)
from workbench.data.grammar._lexicon import Verb, adjectives, nouns, verbs
from workbench.data.grammar._morphology import NUMBERS
from workbench.data.grammar._nominals import Nominal, nominal, noun_phrase
from workbench.data.grammar._tree import Node, Sampler, Sentence, linearise, node
from workbench.data.grammar._verbs import BE, Agreement, Form, VerbGroup, choose_form, infinitive, verb_group
from workbench.errors import ConfigError, did_you_mean

__all__ = ["CONSTRUCTIONS", "CONSTRUCTION_NAMES", "sentences", "to_conllu", "write_conllu"]

_PAST = (Form.PAST, Form.PAST_PERFECT, Form.PAST_PROGRESSIVE)


def _full_stop(head: Node, mark: str = ".") -> Node:
    return head.as_relation("root").with_after(node(mark, "PUNCT", "punct").attached())


def _comma() -> Node:
    return node(",", "PUNCT", "punct").attached()


def _head(group: VerbGroup) -> Node:
    assert group.main is not None
    return group.main


def _statement(rule: Callable[[Sampler], Clause]) -> Callable[[Sampler], Node]:
    return lambda sampler: _full_stop(rule(sampler).node)


def _tensed_like(sampler: Sampler, form: Form, tries: int = 50) -> Clause:
    """A simple clause whose tense suits one in ``form``: past with past, other with other."""
    for _ in range(tries):
        clause = simple_clause(sampler)
        if (clause.form in _PAST) == (form in _PAST):
            return clause
    raise AssertionError("clauses of both tenses are frequent")


def complement_clause(sampler: Sampler) -> Node:
    """*The nurse said that the boys had arrived.*"""
    verb = sampler.pick(verbs("clausal"))
    subject = subject_of(sampler, ("person",))
    form = sampler.pick((Form.PAST, Form.PAST, Form.PRESENT))
    group = verb_group(sampler, verb, agreement(subject), form)
    inner = _tensed_like(sampler, form).node.as_relation("ccomp")
    if sampler.chance(0.7) and inner.first.form != "that":  # no "that that"
        inner = inner.with_before(node("that", "SCONJ", "mark"))
    return _full_stop(declarative(_head(group), subject, group).with_after(inner))


def coordinated_clauses(sampler: Sampler) -> Node:
    """*The dog chased the cat, and the children laughed.*"""
    first = simple_clause(sampler)
    second = _tensed_like(sampler, first.form).node.as_relation("conj")
    link = node(sampler.pick(("and", "and", "but", "so")), "CCONJ", "cc")
    return _full_stop(first.node.with_after(second.with_before(_comma(), link)))


def coordinated_verbs(sampler: Sampler) -> Node:
    """*The boys know the answer and laugh*: both verbs agree with one subject."""
    verb = sampler.pick([v for v in verbs("transitive") if "person" in v.subjects])
    second_verb = sampler.pick([v for v in verbs("intransitive") if "person" in v.subjects])
    subject = subject_of(sampler, ("person",))
    form = sampler.pick((Form.PAST, Form.PRESENT))
    group = verb_group(sampler, verb, agreement(subject), form)
    second = _head(verb_group(sampler, second_verb, agreement(subject), form)).as_relation("conj")
    second = second.with_before(node("and", "CCONJ", "cc"))
    target = with_object(sampler, verb, subject, relative=0.0).node.as_relation("obj")
    return _full_stop(declarative(_head(group), subject, group).with_after(target, second))


def adverbial_clause(sampler: Sampler) -> Node:
    """*When the bell rang, the children left*, or with the two clauses the other way round."""
    main = simple_clause(sampler)
    options = (
        ("because", "although")
        if main.form not in _PAST
        else ("because", "although", "when", "before", "after")
    )
    inner = _tensed_like(sampler, main.form).node.as_relation("advcl")
    inner = inner.with_before(node(sampler.pick(options), "SCONJ", "mark"))
    if sampler.chance(0.4):
        return _full_stop(main.node.with_before(inner.with_after(_comma())))
    return _full_stop(main.node.with_after(inner))


def control(sampler: Sampler) -> Node:
    """*The girls want to visit the museum.*"""
    verb = sampler.pick(verbs("control"))
    subject = subject_of(sampler, ("person",))
    form = sampler.pick((Form.PAST, Form.PRESENT, Form.PAST, Form.PRESENT, Form.PERFECT))
    negated = subject.definite and sampler.chance(0.15)
    group = verb_group(sampler, verb, agreement(subject), form, negated=negated)
    inner_verb = sampler.pick([v for v in verbs("transitive") if "person" in v.subjects and not v.stative])
    target = with_object(sampler, inner_verb, subject, relative=0.05).node.as_relation("obj")
    inner = infinitive(inner_verb, "xcomp").with_after(target)
    return _full_stop(declarative(_head(group), subject, group).with_after(inner))


def existential(sampler: Sampler) -> Node:
    """*There are two dogs in the garden*: the verb agrees with what follows it."""
    number = sampler.pick(NUMBERS)
    noun = sampler.pick(nouns(sampler.pick(("person", "animal", "vehicle", "object", "plant"))))
    determiner = "a" if number == "Sing" else sampler.pick(("numeral", "several", "many", "some", "no"))
    thing = noun_phrase(sampler, noun, number, determiner=determiner, modified=0.0)
    tense = sampler.pick((Form.PRESENT, Form.PAST))
    group = verb_group(sampler, BE, Agreement(3, number), tense)
    # In an existential the form of "be" is the head itself.
    copula = group.auxiliaries[0]
    be = Node(copula.form, "be", "VERB", "root", copula.feats)
    there = node("there", "PRON", "expl")
    return _full_stop(
        be.with_before(there).with_after(thing.node.as_relation("nsubj"), adjuncts.place(sampler))
    )


def _question_subject(sampler: Sampler, kinds: tuple[str, ...]) -> Nominal:
    return nominal(sampler, kinds, subject=True, modified=0.15, negative=False)


def polar_question(sampler: Sampler) -> Node:
    """*Do the boys like the film?*, *Is Maria kind?*"""
    if sampler.chance(0.3):
        subject = _question_subject(sampler, ("person",))
        head = node(sampler.pick(adjectives("person")).text, "ADJ", "root", Degree="Pos")
        group = _question_group(sampler, BE, subject)
        return _full_stop(head.with_before(*group.inverted(subject.node.as_relation("nsubj"))), "?")
    verb = sampler.pick([v for v in verbs("transitive") if "person" in v.subjects])
    subject = _question_subject(sampler, ("person",))
    group = _question_group(sampler, verb, subject)
    target = nominal(
        sampler, verb.objects, subject=False, only=verb.only, beside=subject, modified=0.1, negative=False
    )
    head = _head(group).with_before(*group.inverted(subject.node.as_relation("nsubj")))
    return _full_stop(head.with_after(target.node.as_relation("obj")), "?")


def _question_group(sampler: Sampler, verb: Verb, subject: Nominal) -> VerbGroup:
    form = choose_form(sampler, verb)
    negated = sampler.chance(0.1)
    return verb_group(sampler, verb, agreement(subject), form, negated=negated, question=True)


def object_question(sampler: Sampler) -> Node:
    """*Which letters did the lawyer sign?*, *Who does Maria admire?*"""
    verb = sampler.pick(
        [v for v in verbs("transitive") if "person" in v.subjects and v.obligatory and not v.only]
    )
    kind = sampler.pick(verb.objects)
    subject = _question_subject(sampler, ("person",))
    group = _question_group(sampler, verb, subject)
    asked = _asked(sampler, kind, "obj")
    return _full_stop(
        _head(group).with_before(asked, *group.inverted(subject.node.as_relation("nsubj"))), "?"
    )


def _asked(sampler: Sampler, kind: str, deprel: str) -> Node:
    """*who*, *what* or *which* with a noun."""
    if sampler.chance(0.5):
        return node("who" if kind == "person" else "what", "PRON", deprel, PronType="Int")
    number = sampler.pick(NUMBERS)
    noun = noun_phrase(sampler, sampler.pick(nouns(kind)), number, determiner="", modified=0.0)
    return noun.node.as_relation(deprel).with_before(node("which", "DET", "det", PronType="Int"))


def subject_question(sampler: Sampler) -> Node:
    """*Who broke the lamp?*: no inversion."""
    verb = sampler.pick([v for v in verbs("transitive") if "person" in v.subjects])
    form = sampler.pick((Form.PAST, Form.PRESENT, Form.PERFECT, Form.FUTURE))
    group = verb_group(sampler, verb, Agreement(3, "Sing"), form)
    target = nominal(sampler, verb.objects, subject=False, only=verb.only, modified=0.1, negative=False)
    head = _head(group).with_before(node("who", "PRON", "nsubj", PronType="Int"), *group.before)
    return _full_stop(head.with_after(target.node.as_relation("obj")), "?")


def adverb_question(sampler: Sampler) -> Node:
    """*When will the guests arrive?*, *Where did Anna lose the key?*"""
    verb = sampler.pick([v for v in verbs("transitive") if "person" in v.subjects and not v.stative])
    subject = _question_subject(sampler, ("person",))
    form = sampler.pick((Form.PAST, Form.PRESENT, Form.FUTURE))
    group = verb_group(sampler, verb, agreement(subject), form, question=True)
    target = nominal(
        sampler, verb.objects, subject=False, only=verb.only, beside=subject, modified=0.0, negative=False
    )
    asked = node(sampler.pick(("when", "where", "why")), "ADV", "advmod", PronType="Int")
    head = _head(group).with_before(asked, *group.inverted(subject.node.as_relation("nsubj")))
    return _full_stop(head.with_after(target.node.as_relation("obj")), "?")


CONSTRUCTIONS: dict[str, tuple[Callable[[Sampler], Node], float]] = {
    "transitive": (_statement(clauses.transitive), 22),
    "intransitive": (_statement(clauses.intransitive), 9),
    "ditransitive": (_statement(clauses.ditransitive), 6),
    "passive": (_statement(clauses.passive), 7),
    "copular_adjective": (_statement(clauses.copular_adjective), 8),
    "copular_noun": (_statement(clauses.copular_noun), 4),
    "copular_place": (_statement(clauses.copular_place), 4),
    "complement_clause": (complement_clause, 8),
    "coordinated_clauses": (coordinated_clauses, 7),
    "coordinated_verbs": (coordinated_verbs, 4),
    "adverbial_clause": (adverbial_clause, 6),
    "control": (control, 5),
    "existential": (existential, 3),
    "polar_question": (polar_question, 4),
    "object_question": (object_question, 3),
    "subject_question": (subject_question, 2),
    "adverb_question": (adverb_question, 2),
}


CONSTRUCTION_NAMES = tuple(CONSTRUCTIONS)


def sentences(count: int, seed: int = 0, *, constructions: Sequence[str] | None = None) -> list[Sentence]:
    """``count`` sentences with distinct texts and gold annotation; the same seed gives the same sentences.

    ``constructions`` limits the rules to some of :data:`CONSTRUCTION_NAMES`. Raises
    :class:`~workbench.errors.ConfigError` for a negative count or an unknown construction.
    """
    if count < 0:
        raise ConfigError(f"count must be 0 or more, got {count}")
    chosen = CONSTRUCTION_NAMES if constructions is None else tuple(constructions)
    for name in chosen:
        if name not in CONSTRUCTIONS:
            raise ConfigError(
                f"unknown construction {name!r}; {did_you_mean(name, list(CONSTRUCTION_NAMES))}"
            )
    weights = {name: CONSTRUCTIONS[name][1] for name in chosen}
    sampler = Sampler(seed)
    found: dict[str, Sentence] = {}
    while len(found) < count:
        name = sampler.weighted(weights)
        root = CONSTRUCTIONS[name][0](sampler)
        sentence = linearise(root, sentence_id=f"builtin-{seed}-{len(found) + 1}", construction=name)
        found.setdefault(sentence.text, sentence)
    return list(found.values())


def to_conllu(corpus: Iterable[Sentence]) -> str:
    """The sentences as one CoNLL-U document."""
    return "".join(sentence.to_conllu() for sentence in corpus)


def write_conllu(corpus: Iterable[Sentence], path: str | os.PathLike[str]) -> Path:
    """Write the sentences to ``path``, whole or not at all."""
    return write_text(path, to_conllu(corpus))
