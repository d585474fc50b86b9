"""English inflection: plurals, verb forms, agreement and the indefinite article, by rule with exceptions."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

__all__ = [
    "NUMBERS",
    "Number",
    "Person",
    "Tense",
    "be",
    "finite",
    "gerund",
    "have",
    "indefinite_article",
    "past",
    "plural",
    "third_person",
]

Number: TypeAlias = Literal["Sing", "Plur"]
Person: TypeAlias = Literal[1, 2, 3]
Tense: TypeAlias = Literal["Past", "Pres"]
NUMBERS: tuple[Number, ...] = ("Sing", "Plur")

_SIBILANT = re.compile(r"(s|x|z|ch|sh)$")
_CONSONANT_Y = re.compile(r"[^aeiou]y$")
# One short vowel between consonants in a one-syllable word: the last consonant doubles (stop, stopped).
_DOUBLING = re.compile(r"^[^aeiou]*[aeiou][bdgklmnprt]$")
_O_PLURALS = {"potato", "tomato", "hero", "echo"}
# Spelt with a vowel, spoken with a consonant; and the other way round.
_CONSONANT_SOUND = re.compile(
    r"^(uni(?![nmd])|us[aeu]|ut[ei]|uk[rue]|ubiq|ura|u-|eu|ewe|one(?![a-z])|once)", re.IGNORECASE
)
_VOWEL_SOUND = re.compile(r"^(hour|honou?r|honest|heir|[aeiou]|8|11(?!\d)|18(?!\d))", re.IGNORECASE)
_ACRONYM = re.compile(r"^[A-Z]{1,4}(?![A-Za-z])")
_LETTERS_WITH_VOWEL_SOUND = "AEFHILMNORSX"


def plural(noun: str) -> str:
    """Regular plural: ``box`` gives ``boxes``, ``story`` gives ``stories``."""
    if _CONSONANT_Y.search(noun):
        return noun[:-1] + "ies"
    if _SIBILANT.search(noun) or noun in _O_PLURALS:
        return noun + "es"
    return noun + "s"


def third_person(lemma: str) -> str:
    """Third person singular present: ``watch`` gives ``watches``, ``carry`` gives ``carries``."""
    if _CONSONANT_Y.search(lemma):
        return lemma[:-1] + "ies"
    if _SIBILANT.search(lemma) or lemma in {"do", "go"}:
        return lemma + "es"
    return lemma + "s"


def past(lemma: str) -> str:
    """Regular past, which is the participle too: ``copy`` gives ``copied``, ``beg`` gives ``begged``."""
    if lemma.endswith("e"):
        return lemma + "d"
    if _CONSONANT_Y.search(lemma):
        return lemma[:-1] + "ied"
    return _doubled(lemma) + "ed"


def gerund(lemma: str) -> str:
    """The form in -ing: ``write`` gives ``writing``, ``see`` ``seeing``, ``stop`` ``stopping``."""
    if lemma.endswith("ie"):
        return lemma[:-2] + "ying"
    if lemma.endswith("e") and not lemma.endswith(("ee", "oe", "ye")):
        return lemma[:-1] + "ing"
    return _doubled(lemma) + "ing"


def _doubled(lemma: str) -> str:
    return lemma + lemma[-1] if _DOUBLING.match(lemma) else lemma


def finite(
    lemma: str, past_form: str, *, tense: Tense, person: Person, number: Number, third: str = ""
) -> str:
    """The finite form of a verb other than *be* and *have* that agrees with its subject."""
    if tense == "Past":
        return past_form
    return (third or third_person(lemma)) if (person, number) == (3, "Sing") else lemma


def be(tense: Tense, person: Person, number: Number) -> str:
    """The form of *be*: am, is, are, was, were."""
    if tense == "Past":
        return "was" if number == "Sing" and person != 2 else "were"
    if number == "Plur" or person == 2:
        return "are"
    return "am" if person == 1 else "is"


def have(tense: Tense, person: Person, number: Number) -> str:
    """The form of *have*: have, has, had."""
    return finite("have", "had", tense=tense, person=person, number=number, third="has")


def indefinite_article(phrase: str) -> str:
    """``a`` or ``an`` before ``phrase``, by sound: an hour, a university, an honest man, an FBI agent, an 8.

    Words in up to four capitals are read letter by letter.
    """
    word = phrase.lstrip("\"'“‘(")
    if (acronym := _ACRONYM.match(word)) and len(acronym.group()) > 1:
        return "an" if word[0] in _LETTERS_WITH_VOWEL_SOUND else "a"
    if _CONSONANT_SOUND.match(word):
        return "a"
    return "an" if _VOWEL_SOUND.match(word) else "a"
