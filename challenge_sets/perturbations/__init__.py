"""Perturbations: small changes to a text, each with what it promises to preserve.

Calling one gives changed texts, or nothing where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from challenge_sets.perturbations import _negation as negation
from challenge_sets.perturbations import _surface as surface
from challenge_sets.perturbations import _words as words
from workbench.errors import ConfigError, did_you_mean

__all__ = ["PERTURBATIONS", "Perturbation", "perturbation"]

_SEPARATOR = "\n\x1e\n"  # between the texts of one case; no perturbation touches it


@dataclass(frozen=True)
class Perturbation:
    """A change to a text.

    ``rule`` takes the text, a random generator and how many results to try for. ``preserves`` says what a
    reader may rely on. ``consistent`` means that the texts of one case can be changed together.
    """

    name: str
    preserves: str
    rule: Callable[[str, Random, int], list[str]]
    consistent: bool = True

    def __call__(self, text: str, *, count: int = 1, seed: int = 0) -> list[str]:
        """Up to ``count`` different changed texts, none of them ``text``; empty where nothing applies."""
        random = Random(f"{self.name}/{seed}/{text}")
        changed = dict.fromkeys(self.rule(text, random, count))
        changed.pop(text, None)
        return list(changed)[:count]

    def together(self, texts: Sequence[str], *, count: int = 1, seed: int = 0) -> list[tuple[str, ...]]:
        """The texts of one case changed alike: a name in both members of a pair becomes the same new name.

        Raises :class:`~workbench.errors.ConfigError` for perturbations of one text only.
        """
        if not self.consistent:
            raise ConfigError(f"{self.name} changes one text, not {len(texts)} together; apply it to each")
        changed = self(_SEPARATOR.join(texts), count=count, seed=seed)
        return [tuple(text.split(_SEPARATOR)) for text in changed]


_ALL = (
    Perturbation("typos", "meaning, to a reader who sees through one typing error", surface.typos),
    Perturbation("contract", "meaning and every label", surface.contract),
    Perturbation("expand_contractions", "meaning and every label", surface.expand_contractions),
    Perturbation(
        "punctuation", "the words; a question may no longer show as one", surface.punctuation, False
    ),
    Perturbation("case", "the words; names and sentence starts no longer show", surface.letter_case),
    Perturbation(
        "change_names", "every label that does not depend on who it is; the gender", words.change_names
    ),
    Perturbation("change_places", "every label that does not depend on where it is", words.change_places),
    Perturbation(
        "change_numbers", "every label that does not depend on how many; centuries", words.change_numbers
    ),
    Perturbation("synonyms", "meaning, nearly: one word for another", words.synonyms, False),
    Perturbation("word_order", "the words; neither grammar nor meaning", words.word_order, False),
    Perturbation(
        "add_negation",
        "grammar and topic; what the first clause states is denied",
        negation.add_negation,
        False,
    ),
    Perturbation(
        "remove_negation", "grammar and topic; what was denied is stated", negation.remove_negation, False
    ),
    Perturbation("add_url", "meaning and every label", surface.add_url, False),
    Perturbation("add_handle", "meaning and every label", surface.add_handle, False),
    Perturbation(
        "near_context", "the text and its label; an unrelated sentence follows", surface.near_context, False
    ),
    Perturbation(
        "distant_context",
        "the text and its label; five unrelated sentences precede",
        surface.distant_context,
        False,
    ),
)

PERTURBATIONS: dict[str, Perturbation] = {item.name: item for item in _ALL}


def perturbation(name: str) -> Perturbation:
    """The perturbation called ``name``; raises :class:`~workbench.errors.ConfigError` with near names."""
    if name not in PERTURBATIONS:
        raise ConfigError(f"unknown perturbation {name!r}; {did_you_mean(name, list(PERTURBATIONS))}")
    return PERTURBATIONS[name]
