"""Made phrases in which one word decides the sentiment, and phrases of masks, which say nothing.

Explanations of a classifier that has seen them can be judged: which word decides is known.
"""

from __future__ import annotations

from workbench.data.grammar import Sampler, adjectives, indefinite_article
from workbench.data.tables import Row

__all__ = ["masked_phrases", "planted_phrases"]

_KINDS = ("general", "text", "event", "idea")
_DECIDING = {
    label: tuple(sorted({a.text for kind in _KINDS for a in adjectives(kind) if a.polarity == label}))
    for label in ("negative", "positive")
}
_PLAIN = (
    "new", "second", "long", "first", "last", "short", "british", "other", "whole", "little", "old", "local", "italian",
    "same", "early", "late",
)  # fmt: skip
_THINGS = (
    "film", "movie", "story", "plot", "script", "picture", "play", "comedy", "drama", "ending", "cast", "music",
    "dialogue", "scene", "director", "actor", "performance", "book", "song", "evening",
)  # fmt: skip
_PLACES = (
    "in the city", "on the screen", "at the theatre", "in the evening", "with the children", "by the river",
    "for an hour", "from the beginning", "until the end", "about a doctor", "about two brothers", "of this year",
    "on television", "with my sister", "after the war",
)  # fmt: skip
_FRAMES = (
    "the {thing} {place} was {word}", "it is {a} {word} {thing}", "{word} {thing} {place}",
    "{an} {plain} {thing} , {word}", "the {plain} {thing} and the {other} were {word}", "they call it {word}",
    "that {thing} seemed {word} to us", "{a} {word} {plain} {thing}", "what {a} {word} {thing} {place}",
    "{thing} : {word}", "her {plain} {thing} {place} is {word} .", "everything {place} looks {word}",
    "his {word} {thing} {place}", "a {thing} {place} that is {word}", "the {plain} {thing} feels {word} .", "{word}",
    "for the {plain} {thing} they chose {a} {word} {other}", "some {word} {thing} {place} , and {an} {plain} {other}",
    "{place} we watched {an} {plain} and {word} {thing}",
)  # fmt: skip


def planted_phrases(count: int, seed: int = 0) -> list[Row]:
    """``count`` different phrases with ``text``, ``label`` and ``marked``: 1 for the word that decides, else 0."""
    sampler = Sampler(seed)
    found: dict[str, Row] = {}
    while len(found) < count:
        label = sampler.pick(("negative", "positive"))
        word, plain = sampler.pick(_DECIDING[label]), sampler.pick(_PLAIN)
        text = sampler.pick(_FRAMES).format(
            word=word,
            a=indefinite_article(word),
            thing=sampler.pick(_THINGS),
            other=sampler.pick(_THINGS),
            plain=plain,
            an=indefinite_article(plain),
            place=sampler.pick(_PLACES),
        )
        found[text] = {"text": text, "label": label, "marked": [int(w == word) for w in text.split()]}
    return list(found.values())


def masked_phrases(count: int, seed: int = 0) -> list[Row]:
    """``count`` phrases of nothing but masks, as WordPiece tokenizers spell them, with labels by chance."""
    sampler = Sampler(seed)
    lengths = range(1, 21)
    return [
        {
            "text": " ".join(["[MASK]"] * sampler.pick(lengths)),
            "label": sampler.pick(("negative", "positive")),
        }
        for _ in range(count)
    ]
