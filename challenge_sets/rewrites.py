"""Rewrites that should keep the meaning: rules for words that stand for one another, and which words may.

A word's replacements come from a lexicon of pairs that may stand for one another in some texts. Function words,
phrases and marks have a table of their own, and contractions. Whether a rule holds in a text is judged there:
see :mod:`challenge_sets.rule_induction`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import NamedTuple, TypeAlias

from workbench.data.grammar import contractions, indefinite_article, lexicon

__all__ = ["PHRASES", "Replacement", "Rule", "Swap", "may_replace", "synonyms"]

Swap: TypeAlias = tuple[str, str]
"""A word, and the word that takes its place."""


class Replacement(NamedTuple):
    """``new`` in place of ``text[start:end]``."""

    text: str
    start: int
    end: int
    new: str

    def with_words(self, new: str) -> str:
        """The text with ``new`` at the place of the edit."""
        return self.text[: self.start] + new + self.text[self.end :]

    @property
    def changed(self) -> str:
        """The text after the edit."""
        return self.with_words(self.new)


@dataclass(frozen=True)
class Rule:
    """A regular expression, which ignores case, and what takes its place (``\\1`` for its first group)."""

    name: str
    pattern: str
    replacement: str

    @classmethod
    def of_words(cls, swap: Swap, *, before: str = "", behind: str = "") -> Rule:
        """One word for another, between given neighbours; not where a capital in the text may mark a name."""
        old, new = (" ".join(filter(None, (before, word, behind))) for word in swap)
        return cls(f"{old} -> {new}", rf"(?<!\w)(?:^|(?-i:(?=[a-z]))){re.escape(old)}(?!\w)", new)

    def edit(self, text: str) -> Replacement | None:
        """The change of the first match; a capital at its start stays. Nothing where it does not match."""
        match = re.search(self.pattern, text, flags=re.IGNORECASE)
        if match is None:
            return None
        new = match.expand(self.replacement)
        new = new[:1].upper() + new[1:] if match[0][:1].isupper() else new
        return Replacement(text, *match.span(), new) if new != match[0] else None


def _either_way(first: str, second: str) -> tuple[Rule, Rule]:
    """Two words or phrases that can stand for one another."""
    there, back = (Rule(f"{a} -> {b}", rf"\b{a}\b", b) for a, b in ((first, second), (second, first)))
    return there, back


def _contracted() -> Iterator[Rule]:
    """Contractions before a word other than *n't*, and their long forms, but of *'s*, which may be *is* or *has*."""
    for long, short in contractions().items():
        yield Rule(f"{long} -> {short}", rf"\b{long}\b(?=\s+(?!n't)\w)", short)
        if not short.endswith("'s"):
            yield Rule(f"{short} -> {long}", rf"\b{short}\b(?=\s+\w)", long)


PHRASES: tuple[Rule, ...] = (
    *_either_way("everybody", "everyone"),
    *_either_way("somebody", "someone"),
    *_either_way("nobody", "no one"),
    *_either_way("for example", "for instance"),
    *_either_way("because of", "due to"),
    Rule("who is -> who's", r"\bwho is\b(?=\s+\w)", "who's"),
    Rule("I think -> I believe", r"\bI think\b", "I believe"),
    Rule("very -> really", r"\bvery(?=\s+\w)", "really"),
    Rule("lots of -> a lot of", r"\blots of\b", "a lot of"),
    Rule("all of the -> all the", r"\ball of the\b", "all the"),
    Rule("in order to -> to", r"\bin order to\b", "to"),
    Rule("how do I -> how can I", r"\bhow do I\b", "how can I"),
    Rule("which -> what, in questions", r"^which(?=\s+\w+\s+(?:is|are|was|were|do|does|did)\b)", "what"),
    Rule("begin -> start", r"\bbegin(s|ning)?\b", r"start\1"),
    Rule("? -> ??", r"(?<!\?)\?$", "??"),
    Rule("! -> .", r"(?<!!)!$", "."),
    *_contracted(),
)


def synonyms(words: Collection[str]) -> list[Swap]:
    """Replacements for ``words`` (in small letters) that :func:`may_replace` allows."""
    groups: Iterable[tuple[str, ...]] = (tuple(map(str, group)) for group in lexicon("near_synonyms"))
    return [
        (old, new)
        for group in groups
        for old, new in permutations(group, 2)
        if old in words and may_replace(old, new)
    ]


def may_replace(old: str, new: str) -> bool:
    """Whether a word may take another's place, as far as lexicons know.

    Not where either is a function word, a negation or a number, where one is positive and the other negative, and where
    another article would have to stand before it.
    """
    polarities = {_polarities().get(old), _polarities().get(new)}
    return (
        old != new
        and not {old, new} & _protected()
        and not polarities >= {"positive", "negative"}
        and indefinite_article(old) == indefinite_article(new)
    )


@cache
def _protected() -> frozenset[str]:
    kinds = ("function_word", "negation", "number_word", "number")
    return frozenset(str(word) for kind in kinds for word in lexicon(kind))


@cache
def _polarities() -> dict[str, str]:
    """The polarity of adjectives and verbs; none of those that are in lexicons of both."""
    found: dict[str, set[str]] = {}
    for polarity in ("positive", "negative"):
        for kind in ("adjective", "trait", "verb"):
            for word in lexicon(f"{polarity}_{kind}"):
                found.setdefault(str(word), set()).add(polarity)
    return {word: polarities.pop() for word, polarities in found.items() if len(polarities) == 1}
