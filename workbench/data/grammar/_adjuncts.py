"""What a clause can do without: time, place and manner."""

from __future__ import annotations

from workbench.data.grammar._lexicon import nouns, read_lexicon
from workbench.data.grammar._nominals import noun_phrase, prepositional
from workbench.data.grammar._tree import Node, Sampler, node
from workbench.data.grammar._verbs import Form

__all__ = ["frequency", "manner", "place", "time"]

_OUTDOORS = {
    "garden": "in", "park": "in", "forest": "in", "market": "at", "field": "in", "valley": "in",
    "harbor": "in", "village": "in", "courtyard": "in", "meadow": "in", "beach": "on", "bridge": "on",
    "hill": "on", "island": "on", "lake": "at", "river": "at", "tower": "in", "gate": "at",
}  # fmt: skip
_UNITS = ("week", "month", "year")


def _bare_noun(first: str, noun: str, upos: str, **feats: str) -> Node:
    head = node(noun, "NOUN", "obl:unmarked", Number="Sing")
    return head.with_before(node(first, upos, "det" if upos == "DET" else "amod", **feats))


def _weekday(sampler: Sampler) -> Node:
    day = sampler.pick(read_lexicon("words")["weekday"])
    return prepositional("on", node(day, "PROPN", "obl", Number="Sing"), "obl")


def _date(sampler: Sampler) -> Node:
    month = sampler.pick(read_lexicon("words")["month"])
    year = node(str(sampler.between(1950, 2024)), "NUM", "obl", NumForm="Digit", NumType="Card")
    if sampler.chance(0.5):
        return prepositional("in", year, "obl")
    return prepositional("in", node(month, "PROPN", "obl", Number="Sing"), "obl")


def _ago(sampler: Sampler) -> Node:
    unit = sampler.pick(("day", *_UNITS))
    count = node(
        sampler.pick(("two", "three", "four", "five")), "NUM", "nummod", NumForm="Word", NumType="Card"
    )
    length = node(unit + "s", "NOUN", "obl:unmarked", lemma=unit, Number="Plur").with_before(count)
    return node("ago", "ADV", "advmod").with_before(length)


def time(sampler: Sampler, form: Form) -> Node | None:
    """When, in keeping with the tense: *yesterday*, *on Monday*, *in 1987*, *every week*, *tomorrow*, ...

    None for the perfect, which most of these do not fit.
    """
    if form in (Form.PAST, Form.PAST_PROGRESSIVE):
        if form is Form.PAST:
            rule = sampler.pick((_weekday, _date, _ago, None))
        else:
            rule = None
        if rule:
            return rule(sampler)
        if sampler.chance(0.5):
            return node("yesterday", "NOUN", "obl:unmarked", Number="Sing")
        return _bare_noun("last", sampler.pick(_UNITS), "ADJ", Degree="Pos")
    if form is Form.PRESENT:
        return _bare_noun("every", sampler.pick(("day", *_UNITS)), "DET", PronType="Tot")
    if form in (Form.FUTURE, Form.MODAL):
        if sampler.chance(0.4):
            return node("tomorrow", "NOUN", "obl:unmarked", Number="Sing")
        return _bare_noun("next", sampler.pick(_UNITS), "ADJ", Degree="Pos")
    if form is Form.PROGRESSIVE:
        return node("now", "ADV", "advmod")
    return None


def place(sampler: Sampler) -> Node:
    """Where: *in the garden*, *at the market*, *in the old library*, *in Paris*."""
    kind = sampler.weighted({"outdoors": 5, "building": 4, "city": 2})
    if kind == "city":
        *first, last = sampler.pick(read_lexicon("places")["city"]).split()
        city = node((first or [last])[0], "PROPN", "obl", Number="Sing")
        rest = [node(last, "PROPN", "flat", Number="Sing")] if first else []
        return prepositional("in", city.with_after(*rest), "obl")
    noun = sampler.pick(nouns(kind))
    phrase = noun_phrase(sampler, noun, "Sing", determiner=sampler.pick(("the", "the", "a")), modified=0.0)
    return prepositional(_OUTDOORS.get(noun.singular, "in"), phrase.node, "obl")


def manner(sampler: Sampler) -> Node:
    """How: *quietly*, *carefully*, ..."""
    return node(sampler.pick(read_lexicon("words")["manner"]), "ADV", "advmod")


def frequency(sampler: Sampler) -> Node:
    """How often: *always*, *never*, ... in front of the main verb."""
    text = sampler.pick((*read_lexicon("words")["frequency"], "never"))
    return node(text, "ADV", "advmod", **({"PronType": "Neg"} if text == "never" else {}))
