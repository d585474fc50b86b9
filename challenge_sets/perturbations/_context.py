"""Perturbations that leave the text alone and put something irrelevant beside it."""

from __future__ import annotations

from random import Random

from workbench.data.grammar import lexicon

__all__ = ["add_handle", "add_url", "distant_context", "near_context"]

_DISTANCE = 5


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
    fillers = [" ".join(_draw("irrelevant_sentence", random, _DISTANCE)) for _ in range(count)]
    return [f"{filler} {text.lstrip()}" for filler in fillers]
