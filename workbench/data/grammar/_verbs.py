"""Verb groups: auxiliaries, negation and the main verb's form, in agreement with a subject."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workbench.data.grammar._lexicon import Verb
from workbench.data.grammar._morphology import Number, Person, Tense, be, finite, have
from workbench.data.grammar._tree import Node, Sampler, node

__all__ = ["BE", "Agreement", "Form", "VerbGroup", "choose_form", "infinitive", "verb_group"]

BE = Verb("be", "is", "was", "been", "being", "copular", ("person",), stative=True)


class Form(StrEnum):
    """Tense and aspect of a clause."""

    PAST = "past"
    PRESENT = "present"
    FUTURE = "future"
    MODAL = "modal"
    PERFECT = "present perfect"
    PAST_PERFECT = "past perfect"
    PROGRESSIVE = "present progressive"
    PAST_PROGRESSIVE = "past progressive"


_WEIGHTS = {
    Form.PAST: 34, Form.PRESENT: 30, Form.FUTURE: 8, Form.MODAL: 6, Form.PERFECT: 8,
    Form.PAST_PERFECT: 2, Form.PROGRESSIVE: 7, Form.PAST_PROGRESSIVE: 5,
}  # fmt: skip
_PAST_FORMS = {Form.PAST, Form.PAST_PERFECT, Form.PAST_PROGRESSIVE}
_MODALS = ("can", "must", "should", "could", "might", "may")
# Modals that do not contract with "not".
_NO_CONTRACTION = ("may", "might", "am")
_CONTRACTED = {"will": "wo", "can": "ca"}


@dataclass(frozen=True)
class Agreement:
    """The person and number that a finite verb takes from its subject."""

    person: Person
    number: Number

    @property
    def feats(self) -> dict[str, str]:
        """Person and number as features; number does not show in the second person."""
        feats = {"Person": str(self.person)}
        return feats if self.person == 2 else feats | {"Number": self.number}


@dataclass(frozen=True)
class VerbGroup:
    """The words of a verb group: auxiliaries in order (a copula among them), negation, and the main verb.

    ``main`` is None in a copular clause. Contracted negation is glued to the first auxiliary.
    """

    auxiliaries: tuple[Node, ...]
    negation: Node | None
    main: Node | None
    form: Form
    adverb: Node | None = None

    @property
    def before(self) -> tuple[Node, ...]:
        """What stands between subject and main verb in a statement."""
        negation = (self.negation,) if self.negation else ()
        adverb = (self.adverb,) if self.adverb else ()
        return (*self.auxiliaries[:1], *negation, *self.auxiliaries[1:], *adverb)

    def inverted(self, subject: Node) -> tuple[Node, ...]:
        """The words in front of the main verb in a question: first auxiliary, subject, the rest."""
        if self.negation is None:
            return (self.auxiliaries[0], subject, *self.auxiliaries[1:])
        around = (self.negation, subject) if self.negation.glued else (subject, self.negation)
        return (self.auxiliaries[0], *around, *self.auxiliaries[1:])


def choose_form(sampler: Sampler, verb: Verb) -> Form:
    """A tense and aspect that the verb allows: no progressive of states."""
    blocked = {Form.PROGRESSIVE, Form.PAST_PROGRESSIVE} if verb.stative else set()
    return sampler.weighted({form: w for form, w in _WEIGHTS.items() if form not in blocked})


def _helpers(sampler: Sampler, form: Form, passive: bool) -> list[str]:
    first = {
        Form.FUTURE: "will",
        Form.MODAL: sampler.pick(_MODALS),
        Form.PERFECT: "have",
        Form.PAST_PERFECT: "have",
        Form.PROGRESSIVE: "be",
        Form.PAST_PROGRESSIVE: "be",
    }.get(form)
    return [*([first] if first else []), *(["be:pass"] if passive else [])]


def _dependent_feats(helper: str | None) -> dict[str, str]:
    """Features of the word that follows ``helper``."""
    if helper == "have":
        return {"Tense": "Past", "VerbForm": "Part"}
    if helper == "be":
        return {"Tense": "Pres", "VerbForm": "Part"}
    if helper == "be:pass":
        return {"Tense": "Past", "VerbForm": "Part", "Voice": "Pass"}
    return {"VerbForm": "Inf"}


def _dependent_form(verb: Verb, helper: str) -> str:
    forms = {"have": verb.participle, "be": verb.gerund, "be:pass": verb.participle}
    return forms.get(helper, verb.lemma)


def _finite_feats(tense: Tense, agreement: Agreement) -> dict[str, str]:
    return {"Mood": "Ind", "Tense": tense, "VerbForm": "Fin"} | agreement.feats


def _finite_helper(helper: str, tense: Tense, agreement: Agreement) -> Node:
    person, number = agreement.person, agreement.number
    feats = _finite_feats(tense, agreement)
    if helper in ("be", "be:pass"):
        deprel = "aux:pass" if helper == "be:pass" else "aux"
        return node(be(tense, person, number), "AUX", deprel, lemma="be", **feats)
    if helper == "have":
        return node(have(tense, person, number), "AUX", "aux", lemma="have", **feats)
    if helper == "do":
        form = finite("do", "did", tense=tense, person=person, number=number)
        return node(form, "AUX", "aux", lemma="do", **feats)
    return node(helper, "AUX", "aux", VerbForm="Fin")


def _finite_main(verb: Verb, tense: Tense, agreement: Agreement) -> Node:
    person, number = agreement.person, agreement.number
    feats = _finite_feats(tense, agreement)
    if verb is BE:
        return node(be(tense, person, number), "AUX", "cop", lemma="be", **feats)
    form = finite(verb.lemma, verb.past, tense=tense, person=person, number=number, third=verb.third)
    return node(form, "VERB", "root", lemma=verb.lemma, **feats)


def verb_group(
    sampler: Sampler,
    verb: Verb,
    agreement: Agreement,
    form: Form,
    *,
    negated: bool = False,
    question: bool = False,
    passive: bool = False,
) -> VerbGroup:
    """``verb`` in ``form``; *do* is supplied where negation or inversion needs it."""
    tense: Tense = "Past" if form in _PAST_FORMS else "Pres"
    helpers = _helpers(sampler, form, passive)
    if not helpers and verb is not BE and (negated or question):
        helpers = ["do"]
    auxiliaries = _auxiliaries(helpers, tense, agreement)
    main = _dependent_main(verb, helpers[-1]) if helpers else _finite_main(verb, tense, agreement)
    if verb is BE:  # a copula behaves as one more auxiliary: the clause's head is its predicate
        auxiliaries.append(main)
    negation = _negation(sampler, auxiliaries[0]) if negated else None
    if negation:
        auxiliaries[0] = _before_negation(auxiliaries[0], negation)
    return VerbGroup(tuple(auxiliaries), negation, None if verb is BE else main, form)


def _auxiliaries(helpers: list[str], tense: Tense, agreement: Agreement) -> list[Node]:
    """The first helper finite, a passive *be* behind it in the form that the first asks for."""
    found = [_finite_helper(helper, tense, agreement) for helper in helpers[:1]]
    for before in helpers[:-1]:
        text = _dependent_form(BE, before)
        found.append(node(text, "AUX", "aux:pass", lemma="be", **_dependent_feats(before)))
    return found


def _dependent_main(verb: Verb, helper: str) -> Node:
    upos, deprel = ("AUX", "cop") if verb is BE else ("VERB", "root")
    return node(_dependent_form(verb, helper), upos, deprel, lemma=verb.lemma, **_dependent_feats(helper))


def _negation(sampler: Sampler, auxiliary: Node) -> Node:
    if auxiliary.form in _NO_CONTRACTION or sampler.chance(0.6):
        return node("not", "PART", "advmod", Polarity="Neg")
    return node("n't", "PART", "advmod", lemma="not", Polarity="Neg").attached()


def _before_negation(auxiliary: Node, negation: Node) -> Node:
    """*wo* and *ca* in front of *n't*; otherwise the auxiliary as it is."""
    if not negation.glued or auxiliary.form not in _CONTRACTED:
        return auxiliary
    return node(_CONTRACTED[auxiliary.form], "AUX", "aux", lemma=auxiliary.lemma, VerbForm="Fin")


def infinitive(verb: Verb, deprel: str) -> Node:
    """*to* with the infinitive."""
    return node(verb.lemma, "VERB", deprel, VerbForm="Inf").with_before(node("to", "PART", "mark"))
