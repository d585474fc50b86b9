"""Perturbations of words: names, places, numbers, synonyms, order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from random import Random

from workbench.data.grammar import indefinite_article, lexicon, names, regular_plural

__all__ = ["change_names", "change_numbers", "change_places", "synonyms", "word_order"]

_NUMBER = re.compile(r"(?<![\w.,@#/:-])\d+(?![\w@/:-]|[.,]\d)")
_WORD = re.compile(r"\w+(?:['’]\w+)?")
# As likely to be another part of speech, or another sense, as the one that has the synonym.
_AMBIGUOUS = {
    "happy",
    "right",
    "hard",
    "fast",
    "present",
    "little",
    "store",
    "answer",
    "reply",
    "odd",
    "kid",
    "ill",
    "shop",
}


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(set(words), key=len, reverse=True)
    return re.compile(r"\b(" + "|".join(map(re.escape, longest_first)) + r")\b")


def _replaced(
    text: str, pattern: re.Pattern[str], choices: Mapping[str, Sequence[str]], random: Random
) -> str:
    """Each word that ``pattern`` finds replaced by one of its choices, the same word always by the same one."""
    found = dict.fromkeys(pattern.findall(text))
    new: dict[str, str] = {}
    for word in found:
        options = [choice for choice in choices[word] if choice not in found and choice not in new.values()]
        new[word] = random.choice(options) if options else word
    return pattern.sub(lambda match: new[match.group()], text)


@cache
def _name_choices() -> dict[str, list[str]]:
    return {name.text: [other.text for other in names(name.gender) if other != name] for name in names()}


@cache
def _name_pattern() -> re.Pattern[str]:
    return _any_of(_name_choices())


def change_names(text: str, random: Random, count: int) -> list[str]:
    """Each known first name becomes another of the same gender."""
    return [_replaced(text, _name_pattern(), _name_choices(), random) for _ in range(count)]


@cache
def _place_choices() -> dict[str, list[str]]:
    choices: dict[str, list[str]] = {}
    for kind in ("city", "country"):
        places = [str(place) for place in lexicon(kind)]
        choices |= {place: [other for other in places if other != place] for place in places}
    return choices


@cache
def _place_pattern() -> re.Pattern[str]:
    return _any_of(_place_choices())


def change_places(text: str, random: Random, count: int) -> list[str]:
    """Each known city becomes another city, each country another country."""
    return [_replaced(text, _place_pattern(), _place_choices(), random) for _ in range(count)]


def _other_number(digits: str, random: Random) -> str:
    """Another number of as many digits; years from 1900 to 2099 stay in their century."""
    value = int(digits)
    low = 0 if len(digits) == 1 else 10 ** (len(digits) - 1)
    high = 10 ** len(digits) - 1
    if len(digits) == 4 and 1900 <= value <= 2099:
        low, high = value // 100 * 100, value // 100 * 100 + 99
    if len(digits) == 1:
        low = 2  # 0 and 1 change the grammar around them
    options = [low, high] if value not in (low, high) else []
    drawn = random.randint(low, high)
    return str(drawn if drawn != value else random.choice(options or [low + (value == low)]))


def change_numbers(text: str, random: Random, count: int) -> list[str]:
    """Each whole number in digits, other than 0 and 1, becomes another of the same length."""
    found = {
        digits for digits in _NUMBER.findall(text) if digits not in ("0", "1") and not digits.startswith("0")
    }
    changed = []
    for _ in range(count):
        new = {digits: _other_number(digits, random) for digits in sorted(found)}
        changed.append(_NUMBER.sub(lambda match, new=new: new.get(match.group(), match.group()), text))  # type: ignore[misc]
    return changed


@cache
def _synonym_choices() -> dict[str, list[str]]:
    choices: dict[str, list[str]] = {}
    nouns = lexicon("noun_synonyms")
    for entry in lexicon("synonyms"):
        first, second = map(str, entry)
        for word, other in ((first, second), (second, first)):
            if word in _AMBIGUOUS:
                continue
            choices.setdefault(word, []).append(other)
            if entry in nouns:
                choices.setdefault(regular_plural(word), []).append(regular_plural(other))
    return choices


def synonyms(text: str, random: Random, count: int) -> list[str]:
    """One word becomes a synonym, and an article in front of it changes with it."""
    pattern = re.compile(r"(?:\b(an?)(\s+))?" + _any_of(_synonym_choices()).pattern, re.IGNORECASE)
    matches = [match for match in pattern.finditer(text) if match[3].lower() in _synonym_choices()]
    options = [(match, other) for match in matches for other in _synonym_choices()[match[3].lower()]]
    changed = []
    for match, other in random.sample(options, min(count, len(options))):
        word = other.capitalize() if match[3][0].isupper() else other
        article = indefinite_article(other) if match[1] else ""
        article = article.capitalize() if match[1] and match[1][0].isupper() else article
        changed.append(text[: match.start()] + article + (match[2] or "") + word + text[match.end() :])
    return changed


def word_order(text: str, random: Random, count: int) -> list[str]:
    """The words in random order; spaces and punctuation stay where they are."""
    words = _WORD.findall(text)
    shuffled = []
    for _ in range(count):
        order = iter(random.sample(words, len(words)))
        shuffled.append(_WORD.sub(lambda _, order=order: next(order), text))  # type: ignore[misc]
    return shuffled
