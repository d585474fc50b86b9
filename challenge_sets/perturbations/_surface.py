"""Perturbations of spelling (typing errors, contractions, punctuation, case) and of what stands beside the text."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from workbench.data.grammar import contractions, lexicon

__all__ = [
    "add_handle",
    "add_url",
    "contract",
    "distant_context",
    "expand_contractions",
    "letter_case",
    "near_context",
    "punctuation",
    "typos",
]

_LONG_WORD = re.compile(r"(?<![\w@#/.])[A-Za-z]{4,}(?![\w/])")
_FINAL = re.compile(r"\s*([.!?]+)\s*$")
_AMBIGUOUS_SHORT = "'s"  # it's been, it's a: has or is


def typos(text: str, random: Random, count: int) -> list[str]:
    """Two neighbouring letters of one longer word change places; the first letter stays."""
    swaps = [
        match.start() + offset
        for match in _LONG_WORD.finditer(text)
        for offset in range(1, len(match.group()) - 1)
        if match.group()[offset] != match.group()[offset + 1]
    ]
    chosen = random.sample(swaps, min(count, len(swaps)))
    return [text[:i] + text[i + 1] + text[i] + text[i + 2 :] for i in chosen]


def _like(pattern: str, replacement: str) -> str:
    """``replacement`` with a capital where ``pattern`` has one."""
    return replacement[:1].upper() + replacement[1:] if pattern[:1].isupper() else replacement


@cache
def _long_forms() -> re.Pattern[str]:
    longest_first = sorted(contractions(), key=len, reverse=True)
    # Something must follow: nobody says "yes, it's" for "yes, it is".
    return re.compile(r"\b(" + "|".join(map(re.escape, longest_first)) + r")\b(?=\s+\w)", re.IGNORECASE)


def _lookup(table: dict[str, str], text: str) -> str:
    lowered = {key.lower(): value for key, value in table.items()}
    return _like(text, lowered[text.lower()])


def contract(text: str, random: Random, count: int) -> list[str]:
    """*is not* becomes *isn't*, *they are* becomes *they're*, everywhere at once."""
    return [_long_forms().sub(lambda match: _lookup(contractions(), match.group()), text)]


@cache
def _short_forms() -> re.Pattern[str]:
    shorts = [short for short in contractions().values() if not short.endswith(_AMBIGUOUS_SHORT)]
    return re.compile(
        r"\b(" + "|".join(map(re.escape, shorts)) + r")\b(?!\s+(?:I|you|he|she|it|we|they)\b)", re.IGNORECASE
    )


def expand_contractions(text: str, random: Random, count: int) -> list[str]:
    """*isn't* becomes *is not*, *we'll* becomes *we will*.

    Not *it's*, which may be *it has*, and not before a pronoun or at the start of a question, where *not*
    stands elsewhere (*don't you*, *do you not*).
    """
    if re.match(r"\w+n't\b", text) and text.rstrip().endswith("?"):
        return []
    longs = {short: long for long, short in contractions().items()}
    return [_short_forms().sub(lambda match: _lookup(longs, match.group()), text)]


def punctuation(text: str, random: Random, count: int) -> list[str]:
    """Final punctuation is removed, or set apart by a space; a text without any gets a full stop."""
    if not text.strip():
        return []
    final = _FINAL.search(text)
    if final is None:
        return [text.rstrip() + "."]
    body = text[: final.start()]
    return random.sample([body, f"{body} {final[1]}"], 2)


def letter_case(text: str, random: Random, count: int) -> list[str]:
    """All in lower case, or all in upper case."""
    return random.sample([text.lower(), text.upper()], 2)


_SENTENCES_BETWEEN = 5


def _draw(name: str, random: Random, count: int) -> list[str]:
    entries = [str(entry) for entry in lexicon(name)]
    return random.sample(entries, min(count, len(entries)))


def add_url(text: str, random: Random, count: int) -> list[str]:
    """A web address behind the text."""
    return [f"{text.rstrip()} {url}" for url in _draw("url", random, count)] if text.strip() else []


def add_handle(text: str, random: Random, count: int) -> list[str]:
    """A user handle in front of the text."""
    return [f"{handle} {text.lstrip()}" for handle in _draw("handle", random, count)] if text.strip() else []


def near_context(text: str, random: Random, count: int) -> list[str]:
    """One unrelated sentence directly behind the text; nothing for a text without final punctuation."""
    if not text.rstrip().endswith((".", "!", "?")):
        return []
    return [f"{text.rstrip()} {sentence}" for sentence in _draw("irrelevant_sentence", random, count)]


def distant_context(text: str, random: Random, count: int) -> list[str]:
    """Five unrelated sentences in front of the text."""
    if not text.strip():
        return []
    fillers = [" ".join(_draw("irrelevant_sentence", random, _SENTENCES_BETWEEN)) for _ in range(count)]
    return [f"{filler} {text.lstrip()}" for filler in fillers]
