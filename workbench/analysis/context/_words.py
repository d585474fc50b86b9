"""Words of a context, and which of them are function words."""

from __future__ import annotations

from enum import StrEnum

from workbench.text import split_words

__all__ = ["WordClass", "is_of", "pieces_of"]

# Closed classes of English: determiners, pronouns, prepositions, conjunctions, auxiliaries, adverbs without content.
_CLOSED_CLASSES = (
    "a an the this that these those each every either neither some any no all both half such what which whose",
    "i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself",
    "we us our ours ourselves they them their theirs themselves one ones who whom whoever whatever another others",
    "someone somebody something anyone anybody anything everyone everybody everything nobody nothing none other",
    "about above across after against along among around as at before behind below beneath beside besides between",
    "beyond but by despite down during except for from in inside into like near of off on onto out outside over past",
    "per since than through throughout till to toward towards under underneath until up upon via with within without",
    "and or nor so yet if unless because although though while whereas whether when whenever where wherever why how",
    "am is are was were be been being have has had having do does did doing done will would shall should can could",
    "may might must ought cannot not there here then also too very just only even still again ever never always",
    "isn't aren't wasn't weren't don't doesn't didn't won't wouldn't can't couldn't shouldn't haven't hasn't hadn't",
    "i'm i've i'll i'd you're you've you'll you'd he's he'll he'd she's she'll she'd it's it'll we're we've we'll we'd",
    "they're they've they'll they'd that's there's what's who's n't s t re ve ll d m",
)
_FUNCTION = frozenset(word for line in _CLOSED_CLASSES for word in line.split())


class WordClass(StrEnum):
    """Which words of the context are changed."""

    ALL = "all"
    CONTENT = "content"
    FUNCTION = "function"


def pieces_of(text: str) -> list[str]:
    """The words of ``text``, each with the white space behind it; together they are the text from its first word."""
    starts = [start for start, _ in split_words(text)]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def is_of(piece: str, words: WordClass) -> bool:
    """Whether a word belongs to a class; marks without a letter or digit belong to ``ALL`` alone."""
    if words is WordClass.ALL:
        return True
    bare = piece.lower().replace("’", "'").strip().strip(".,;:!?\"'`()[]{}“”‘*-–—…")
    if not any(char.isalnum() for char in bare):
        return False
    return (bare in _FUNCTION) is (words is WordClass.FUNCTION)
