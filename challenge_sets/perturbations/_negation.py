"""Perturbations that turn a statement into its negation, and back."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from workbench.data.grammar import Verb, names, verbs

__all__ = ["add_negation", "remove_negation"]

_AUXILIARY = r"am|is|are|was|were|can|could|will|would|should|must|may|might"
_NEGATION = re.compile(
    r"\b(?:not|never|no|nobody|nothing|nowhere|neither|hardly|cannot)\b|n't\b", re.IGNORECASE
)
_STATEMENT = re.compile(rf"^(?P<subject>[^,;:?]*?)\b(?P<auxiliary>{_AUXILIARY})\b(?=\s+\w)")
_QUESTION_WORD = re.compile(
    rf"^(?:who|what|which|when|where|why|how|do|does|did|has|have|had|{_AUXILIARY})\b", re.IGNORECASE
)
_IRREGULAR = {"wo": "will", "ca": "can", "sha": "shall"}
_FRAMES = ("transitive", "intransitive", "ditransitive", "clausal", "control")


@cache
def _by_form() -> dict[str, tuple[str, Verb]]:
    """Present and past forms that tell their verb and tense: ``likes`` to (``does``, like)."""
    found: dict[str, tuple[str, Verb]] = {}
    for frame in _FRAMES:
        for verb in verbs(frame):
            found[verb.third] = ("does", verb)
            if verb.past != verb.lemma:
                found[verb.past] = ("did", verb)
    return found


@cache
def _by_lemma() -> dict[str, Verb]:
    return {verb.lemma: verb for frame in _FRAMES for verb in verbs(frame)}


@cache
def _short_subject() -> re.Pattern[str]:
    """A pronoun or a first name at the start, with the word behind it, which then is the verb."""
    subjects = ["I", "You", "He", "She", "It", "We", "They", *(name.text for name in names())]
    return re.compile(r"^(" + "|".join(map(re.escape, subjects)) + r")\s+([a-z]+)\b")


def _is_statement(text: str) -> bool:
    return not text.rstrip().endswith("?") and not _QUESTION_WORD.match(text)


def add_negation(text: str, random: Random, count: int) -> list[str]:
    """*not* behind the auxiliary of a plain statement, or *does not*, *did not* in front of a known verb.

    Nothing for questions, for texts that hold a negation already, and where the verb is not certain.
    """
    if _NEGATION.search(text) or not _is_statement(text):
        return []
    short = _short_subject().match(text)
    if short and short[2] in _by_form():
        auxiliary, verb = _by_form()[short[2]]
        return [f"{short[1]} {auxiliary} not {verb.lemma}{text[short.end() :]}"]
    match = _STATEMENT.match(text)
    # A relative pronoun before the auxiliary may make it the verb of a clause inside the subject.
    if match is None or re.search(r"\b(?:who|which|that)\b\s*$", match["subject"]):
        return []
    return [f"{text[: match.end()]} not{text[match.end() :]}"]


def _unnegated_do(match: re.Match[str]) -> str:
    auxiliary, lemma = match[1], match[2]
    verb = _by_lemma().get(lemma)
    if verb is None:
        return f"{auxiliary} {lemma}"
    form = {"does": verb.third, "did": verb.past}.get(auxiliary.lower(), verb.lemma)
    return form.capitalize() if auxiliary[0].isupper() else form


def remove_negation(text: str, random: Random, count: int) -> list[str]:
    """*not*, *n't* or *never* is removed; *does not like* becomes *likes*.

    Nothing for questions and for texts without such a word, or with more than one negation.
    """
    if len(_NEGATION.findall(text)) != 1 or not _is_statement(text):
        return []
    for pattern, replacement in ((r"\bcannot\b", "can"), (r"\bnever\s+", "")):
        changed = re.sub(pattern, replacement, text)
        if changed != text:
            return [changed[:1].upper() + changed[1:] if text[:1].isupper() else changed]
    full = re.sub(r"\b(\w+?)n't\b", lambda match: f"{_IRREGULAR.get(match[1].lower(), match[1])} not", text)
    changed = re.sub(r"\b(do|does|did) not (\w+)", _unnegated_do, full, flags=re.IGNORECASE)
    changed = re.sub(rf"\b({_AUXILIARY}|has|have|had) not\b", r"\1", changed, flags=re.IGNORECASE)
    return [changed] if not _NEGATION.search(changed) else []
