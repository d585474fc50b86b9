"""Lexicons by name, for templates: plain words, and records whose fields belong together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

from workbench.data.grammar._lexicon import (
    Gender,
    Name,
    Noun,
    Polarity,
    Verb,
    adjectives,
    names,
    nouns,
    read_lexicon,
    verbs,
)
from workbench.errors import ConfigError, did_you_mean

__all__ = ["Entry", "contractions", "lexicon", "lexicon_names"]

Entry: TypeAlias = "str | Mapping[str, str] | tuple[str, ...]"

_GENDERS: tuple[Gender, ...] = ("female", "male")
_POLARITIES: tuple[Polarity, ...] = ("positive", "negative", "neutral")
_PRONOUNS: dict[Gender, dict[str, str]] = {
    "female": {"subject": "she", "object": "her", "possessive": "her", "reflexive": "herself"},
    "male": {"subject": "he", "object": "him", "possessive": "his", "reflexive": "himself"},
}


def _first_names(gender: Gender | None = None, origin: str | None = None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.text for name in names(gender, origin)))


def _last_names(origin: str | None = None) -> tuple[str, ...]:
    by_origin: dict[str, list[str]] = read_lexicon("surnames")
    return tuple(text for key, texts in by_origin.items() if origin in (None, key) for text in texts)


def _person(name: Name) -> Mapping[str, str]:
    return {"name": name.text, "gender": name.gender, "origin": name.origin} | _PRONOUNS[name.gender]


def _noun(noun: Noun) -> Mapping[str, str]:
    return {"singular": noun.singular, "plural": noun.plural, "kind": noun.kind}


def _verb(verb: Verb) -> Mapping[str, str]:
    forms = ("lemma", "third", "past", "participle", "gerund", "polarity")
    return {form: str(getattr(verb, form)) for form in forms}


def _texts(kind: str, polarity: Polarity) -> tuple[str, ...]:
    return tuple(adjective.text for adjective in adjectives(kind, polarity))


def _synonyms(*kinds: str) -> tuple[tuple[str, ...], ...]:
    by_kind: dict[str, list[list[str]]] = read_lexicon("synonyms")
    return tuple(
        tuple(pair) for kind, pairs in by_kind.items() for pair in pairs if not kinds or kind in kinds
    )


def _opinions() -> tuple[Mapping[str, str], ...]:
    rated = (adjective for adjective in adjectives("general") if adjective.polarity != "neutral")
    return tuple({"text": adjective.text, "polarity": adjective.polarity} for adjective in rated)


def _people() -> dict[str, tuple[Entry, ...]]:
    """Names of all people, by gender, by origin and by both; whole people with their pronouns."""
    found: dict[str, tuple[Entry, ...]] = {
        "first_name": _first_names(),
        "name": _first_names(),
        "last_name": _last_names(),
        "person": tuple(_person(name) for name in names()),
    }
    for gender in _GENDERS:
        found[f"{gender}_first_name"] = _first_names(gender)
        found[f"{gender}_person"] = tuple(_person(name) for name in names(gender))
    for origin in read_lexicon("names"):
        found[f"{origin}_first_name"] = _first_names(None, origin)
        found[f"{origin}_last_name"] = _last_names(origin)
        found |= {f"{origin}_{gender}_first_name": _first_names(gender, origin) for gender in _GENDERS}
    return found


def _dates() -> tuple[str, ...]:
    """*March 15, 1987*: four days of each month, the years spread over 1950 to 2024."""
    months = read_lexicon("words")["month"]
    days = [(month, day) for month in months for day in (2, 9, 15, 28)]
    return tuple(f"{month} {day}, {1950 + index * 37 % 75}" for index, (month, day) in enumerate(days))


def _things() -> dict[str, tuple[Entry, ...]]:
    countries: list[dict[str, str]] = read_lexicon("places")["country"]
    return {
        "city": tuple(read_lexicon("places")["city"]),
        "country": tuple(country["name"] for country in countries),
        "nationality": tuple(country["nationality"] for country in countries),
        "nation": tuple(countries),
        "profession": tuple(read_lexicon("professions")),
        "synonyms": _synonyms(),
        "noun_synonyms": _synonyms("noun"),
        "near_synonyms": tuple(map(tuple, read_lexicon("near_synonyms"))),
        "adjective": _opinions(),
        "transitive_verb": tuple(_verb(verb) for verb in verbs("transitive")),
        "intransitive_verb": tuple(_verb(verb) for verb in verbs("intransitive")),
        "year": tuple(str(year) for year in range(1950, 2025)),
        "date": _dates(),
        "number": tuple(str(number) for number in range(2, 100)),
    }


@cache
def _lexicons() -> dict[str, tuple[Entry, ...]]:
    found = _people() | _things()
    found |= {name: tuple(words) for name, words in read_lexicon("words").items()}
    for polarity in _POLARITIES:
        found[f"{polarity}_adjective"] = _texts("general", polarity)
        found[f"{polarity}_trait"] = _texts("person", polarity)
    return found | {f"{kind}_noun": tuple(_noun(n) for n in nouns(kind)) for kind in read_lexicon("nouns")}


def contractions() -> dict[str, str]:
    """Long forms and the contractions they have: ``is not`` and ``isn't``."""
    return dict(read_lexicon("contractions"))


def lexicon_names() -> list[str]:
    """The names that :func:`lexicon` knows, sorted."""
    return sorted(_lexicons())


def lexicon(name: str) -> tuple[Entry, ...]:
    """The entries of a built-in lexicon.

    Most are strings. A record's first field stands for it; its fields belong together: ``person`` has
    ``name``, ``gender``, ``origin`` and the pronouns; ``nation`` has ``name`` and ``nationality``;
    ``adjective`` has ``text`` and ``polarity``; ``food_noun`` and its like have ``singular`` and ``plural``;
    ``transitive_verb`` has the five forms; ``synonyms`` are pairs, and
    so are ``near_synonyms``, which may stand for one another in some texts only.
    Raises :class:`~workbench.errors.ConfigError` with the nearest names for an unknown one.
    """
    if name not in _lexicons():
        raise ConfigError(f"no lexicon {name!r}; {did_you_mean(name, lexicon_names())}")
    return _lexicons()[name]
