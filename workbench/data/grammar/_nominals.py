"""Noun phrases: determiners, adjectives, names, pronouns and prepositional modifiers, with agreement."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.data.grammar._lexicon import PEOPLE, Gender, Noun, adjectives, names, nouns, read_lexicon
from workbench.data.grammar._morphology import NUMBERS, Number, Person, indefinite_article
from workbench.data.grammar._tree import Node, Sampler, node

__all__ = [
    "Nominal",
    "adjective_class",
    "modifiers",
    "name",
    "nominal",
    "noun_phrase",
    "prepositional",
    "pronoun",
]

_DETERMINERS: dict[Number, dict[str, float]] = {
    "Sing": {"the": 45, "a": 28, "this": 5, "that": 5, "possessive": 9, "every": 4, "each": 2, "no": 2},
    "Plur": {
        "the": 38, "": 8, "these": 5, "those": 5, "possessive": 8, "some": 6, "many": 6, "several": 5,
        "few": 2, "most": 4, "all": 2, "both": 2, "numeral": 8, "no": 1,
    },
}  # fmt: skip
_NEGATIVE = ("no", "few")
# Subjects under which a negated verb reads naturally: "every box was not old" has two readings.
_DEFINITE = ("the", "this", "that", "these", "those", "possessive", "numeral")
_POSSESSIVES = {"my": "1", "your": "2", "our": "1", "his": "3", "her": "3", "their": "3"}
_SUBJECT_PRONOUNS: dict[str, tuple[Person, Number, Gender | None, str]] = {
    "I": (1, "Sing", None, "me"),
    "you": (2, "Plur", None, "you"),
    "he": (3, "Sing", "male", "him"),
    "she": (3, "Sing", "female", "her"),
    "we": (1, "Plur", None, "us"),
    "they": (3, "Plur", None, "them"),
}
_LEMMAS = {"me": "I", "him": "he", "us": "we", "them": "they"}
_QUANTIFIED = ("everyone", "someone", "everybody", "somebody")
_ADJECTIVE_CLASSES = {
    "animal": "animal", "food": "food", "document": "text", "artwork": "text", "idea": "idea",
    "event": "event", "building": "place", "outdoors": "place",
} | dict.fromkeys(PEOPLE, "person")  # fmt: skip
# Which noun kinds can follow which preposition, for each kind that a phrase modifies.
_MODIFIERS: dict[str, tuple[tuple[str, str], ...]] = {
    "animal": (("near", "plant"), ("behind", "furniture"), ("near", "vehicle")),
    "food": (("on", "furniture"), ("near", "object")),
    "clothing": (("on", "furniture"), ("under", "furniture")),
    "object": (("on", "furniture"), ("near", "clothing"), ("behind", "furniture")),
    "document": (("about", "animal"), ("about", "event"), ("on", "furniture")),
    "vehicle": (("near", "building"), ("behind", "building")),
    "building": (("near", "outdoors"), ("behind", "building")),
    "outdoors": (("near", "building"),),
    "furniture": (("near", "plant"), ("behind", "instrument")),
    "artwork": (("about", "animal"), ("about", "event")),
    "idea": (("from", "person"), ("about", "event")),
    "event": (("near", "outdoors"), ("for", "person")),
    "plant": (("near", "building"), ("behind", "building")),
    "instrument": (("near", "furniture"), ("behind", "furniture")),
} | dict.fromkeys(
    PEOPLE, (("near", "person"), ("behind", "person"), ("with", "clothing"), ("beside", "furniture"))
)


@dataclass(frozen=True)
class Nominal:
    """A noun phrase with what agreement and selection need to know of it.

    ``noun`` is None for names and pronouns; ``definite`` is False under quantifiers and after *a*.
    """

    node: Node
    person: Person
    number: Number
    noun: Noun | None = None
    gender: Gender | None = None
    negative: bool = False
    definite: bool = True


def adjective_class(noun: Noun) -> str:
    """The class of adjectives that fit a noun."""
    return _ADJECTIVE_CLASSES.get(noun.kind, "thing")


def _determiner(kind: str, sampler: Sampler) -> Node | None:
    if kind == "possessive":
        text = sampler.pick(tuple(_POSSESSIVES))
        return node(
            text, "PRON", "nmod:poss", Case="Gen", Person=_POSSESSIVES[text], Poss="Yes", PronType="Prs"
        )
    if kind == "numeral":
        text = sampler.pick(read_lexicon("words")["number_word"])
        return node(text, "NUM", "nummod", NumForm="Word", NumType="Card")
    if kind in ("many", "several", "few"):
        return node(kind, "ADJ", "amod", Degree="Pos")
    if kind == "most":
        return node(kind, "ADJ", "amod", lemma="many", Degree="Sup")
    if kind in ("this", "that", "these", "those"):
        lemma = {"these": "this", "those": "that"}.get(kind, kind)
        return node(
            kind, "DET", "det", lemma=lemma, Number="Sing" if kind == lemma else "Plur", PronType="Dem"
        )
    types = {"every": "Tot", "each": "Tot", "both": "Tot", "some": "Ind", "no": "Neg"}
    if kind in types:
        return node(kind, "DET", "det", PronType=types[kind])
    return node(kind, "DET", "det", Definite="Def", PronType="Art") if kind == "the" else None


def noun_phrase(
    sampler: Sampler, noun: Noun, number: Number, *, determiner: str | None = None, modified: float = 0.2
) -> Nominal:
    """``noun`` with a fitting determiner (drawn unless given), perhaps an adjective, perhaps a modifier.

    ``modified`` is the chance of a prepositional phrase behind the noun. Where its noun differs in number,
    it is an attractor.
    """
    kind = sampler.weighted(_DETERMINERS[number]) if determiner is None else determiner
    adjective = _adjective(sampler, noun) if sampler.chance(0.3) else None
    if kind == "a":
        article = indefinite_article(adjective.form if adjective else noun.singular)
        first: list[Node | None] = [node(article, "DET", "det", lemma="a", Definite="Ind", PronType="Art")]
    elif kind == "all":
        first = [node("all", "DET", "det:predet", PronType="Tot"), _determiner("the", sampler)]
    else:
        first = [_determiner(kind, sampler)]
    phrase = node(noun.form(number), "NOUN", "dep", lemma=noun.singular, Number=number)
    phrase = phrase.with_before(*first, adjective)
    if sampler.chance(modified):
        phrase = phrase.with_after(_modifier(sampler, noun))
    return Nominal(phrase, 3, number, noun, noun.gender, kind in _NEGATIVE, definite=kind in _DEFINITE)


def _adjective(sampler: Sampler, noun: Noun) -> Node:
    return node(sampler.pick(adjectives(adjective_class(noun))).text, "ADJ", "amod", Degree="Pos")


def modifiers(noun: Noun) -> tuple[tuple[str, str], ...]:
    """Prepositions that may follow a noun, each with the kind of noun it takes."""
    return _MODIFIERS[noun.kind]


def _modifier(sampler: Sampler, noun: Noun) -> Node:
    preposition, kind = sampler.pick(_MODIFIERS[noun.kind])
    other = sampler.pick([n for n in nouns(kind) if n != noun])
    number = sampler.pick(NUMBERS)
    determiner = sampler.pick(("the", "the", "a") if number == "Sing" else ("the", "the", "some"))
    inner = noun_phrase(sampler, other, number, determiner=determiner, modified=0.0)
    return prepositional(preposition, inner.node, "nmod")


def prepositional(preposition: str, phrase: Node, deprel: str) -> Node:
    """``phrase`` with its preposition in front, in the relation ``deprel`` to what it modifies."""
    return phrase.with_before(node(preposition, "ADP", "case")).as_relation(deprel)


def name(sampler: Sampler, *, full: float = 0.25) -> Nominal:
    """A first name, with a surname of the same origin at the chance ``full``."""
    first = sampler.pick(names())
    head = node(first.text, "PROPN", "dep", Number="Sing")
    if sampler.chance(full):
        surname = sampler.pick(read_lexicon("surnames")[first.origin])
        head = head.with_after(node(surname, "PROPN", "flat", Number="Sing"))
    return Nominal(head, 3, "Sing", gender=first.gender)


def pronoun(sampler: Sampler, *, subject: bool) -> Nominal:
    """A personal pronoun (I or me by role) or, as subject, now and then *everyone* or *someone*."""
    if subject and sampler.chance(0.15):
        text = sampler.pick(_QUANTIFIED)
        kind = "Tot" if text.startswith("every") else "Ind"
        return Nominal(node(text, "PRON", "dep", Number="Sing", PronType=kind), 3, "Sing", definite=False)
    text = sampler.pick(tuple(_SUBJECT_PRONOUNS))
    person, number, gender, object_form = _SUBJECT_PRONOUNS[text]
    form = text if subject else object_form
    feats = {"Case": "Nom" if subject else "Acc", "Person": str(person), "PronType": "Prs"}
    if person == 2:
        del feats["Case"]  # neither case nor number shows on "you"
    else:
        feats["Number"] = number
    if gender:
        feats["Gender"] = "Masc" if gender == "male" else "Fem"
    lemma = "she" if text == "she" else _LEMMAS.get(form, form)
    return Nominal(node(form, "PRON", "dep", lemma=lemma, **feats), person, number, gender=gender)


def nominal(
    sampler: Sampler,
    kinds: tuple[str, ...],
    *,
    subject: bool,
    only: tuple[str, ...] = (),
    beside: Nominal | None = None,
    modified: float = 0.2,
    negative: bool = True,
) -> Nominal:
    """A name, pronoun or noun phrase of one of ``kinds``.

    It differs from ``beside``, the subject it goes with: another noun, and no *me* beside *I* or *we*.
    ``negative=False`` rules out *no* and *few*, for clauses that have a negation already.
    """
    if "person" in kinds and not only:
        draw = sampler.weighted({"name": 25, "pronoun": 14 if subject else 5, "noun": 60})
        if draw == "name":
            return name(sampler)
        if draw == "pronoun" and (beside is None or beside.person == 3):
            return pronoun(sampler, subject=subject)
    avoid = beside.noun if beside else None
    noun = sampler.pick(
        [n for n in nouns(sampler.pick(kinds)) if n != avoid and (not only or n.singular in only)]
    )
    number = sampler.pick(NUMBERS)
    blocked = (*(() if negative else _NEGATIVE), *(() if subject else ("most",)))
    weights = {d: w for d, w in _DETERMINERS[number].items() if d not in blocked}
    return noun_phrase(sampler, noun, number, determiner=sampler.weighted(weights), modified=modified)


def coordinated(first: Nominal, second: Nominal) -> Nominal:
    """``first and second``: third person plural unless one of them is *I* or *we*."""
    other = second.node.as_relation("conj").with_before(node("and", "CCONJ", "cc"))
    person: Person = 1 if 1 in (first.person, second.person) else 3
    return replace(first, node=first.node.with_after(other), number="Plur", person=person, gender=None)
