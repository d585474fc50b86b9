"""Minimal pairs generated with the grammar: the set ``pairs_builtin``, free of licences and seeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from challenge_sets._records import MinimalPair
from challenge_sets.paradigms import agreement, arguments, licensing, reflexives
from challenge_sets.paradigms.words import Contrast
from workbench.data.grammar import Sampler
from workbench.errors import ConfigError, DataError, did_you_mean

__all__ = ["PARADIGMS", "SET_NAME", "MinimalPair", "Paradigm", "all_pairs", "pairs"]

SET_NAME = "pairs_builtin"
_MOST_REPEATED_DRAWS = 5000  # draws without a new pair after which the lexicons count as used up


class Paradigm(NamedTuple):
    """A rule that makes contrasts, and the phenomenon that they show."""

    name: str
    phenomenon: str
    rule: Callable[[Sampler], Contrast]


_RULES: dict[str, dict[str, Callable[[Sampler], Contrast]]] = {
    "subject_verb_agreement": {
        "agreement_simple": agreement.simple,
        "agreement_prepositional": agreement.prepositional,
        "agreement_subject_relative": agreement.subject_relative,
        "agreement_object_relative": agreement.object_relative,
        "agreement_inside_object_relative": agreement.inside_object_relative,
        "agreement_coordinated_verbs": agreement.coordinated_verbs,
    },
    "reflexives": {
        "reflexive_gender": reflexives.gender,
        "reflexive_number": reflexives.number,
        "reflexive_across_preposition": reflexives.across_preposition,
        "reflexive_across_possessor": reflexives.across_possessor,
        "reflexive_across_relative": reflexives.across_relative,
        "reflexive_across_clause": reflexives.across_clause,
    },
    "negative_polarity": {
        "npi_ever_under_no": licensing.ever_under_no,
        "npi_any_under_negation": licensing.any_under_negation,
        "npi_ever_under_only": licensing.ever_under_only,
        "npi_ever_in_scope": licensing.ever_in_scope,
    },
    "filler_gap": {
        "filler_gap_gap_needs_filler": licensing.gap_needs_filler,
        "filler_gap_no_gap_no_filler": licensing.no_gap_no_filler,
        "filler_gap_gap_needs_filler_far": licensing.gap_needs_filler_far,
        "filler_gap_adjunct_island": licensing.adjunct_island,
    },
    "argument_structure": {
        "argument_transitive": arguments.transitive,
        "argument_intransitive": arguments.intransitive,
        "argument_passive": arguments.passive,
        "argument_infinitive": arguments.infinitive,
    },
    "determiner_noun_agreement": {
        "determiner_noun": agreement.noun,
        "determiner_noun_determiner": agreement.determiner,
        "determiner_noun_adjective": agreement.noun_behind_adjective,
        "determiner_noun_irregular": agreement.irregular_noun,
        "determiner_noun_quantifier": agreement.quantifier,
    },
}

PARADIGMS: dict[str, Paradigm] = {
    name: Paradigm(name, phenomenon, rule)
    for phenomenon, rules in _RULES.items()
    for name, rule in rules.items()
}


def pairs(paradigm: str, count: int = 1000, seed: int = 0) -> list[MinimalPair]:
    """``count`` different pairs of one paradigm; a longer list starts with the shorter one.

    Raises :class:`~workbench.errors.ConfigError` for an unknown paradigm or a count below 1, and
    :class:`~workbench.errors.DataError` if the lexicons do not make that many.
    """
    if paradigm not in PARADIGMS:
        raise ConfigError(f"unknown paradigm {paradigm!r}; {did_you_mean(paradigm, list(PARADIGMS))}")
    if count < 1:
        raise ConfigError(f"count must be 1 or more, got {count}")
    chosen = PARADIGMS[paradigm]
    sampler = Sampler(f"{paradigm}/{seed}")
    found: dict[str, Contrast] = {}
    stale = 0
    while len(found) < count:
        contrast = chosen.rule(sampler)
        stale = stale + 1 if contrast.good in found else 0
        found.setdefault(contrast.good, contrast)
        if stale == _MOST_REPEATED_DRAWS:
            raise DataError(f"paradigm {paradigm} makes about {len(found)} pairs, not {count}; request fewer")
    return [_pair(chosen, index, item) for index, item in enumerate(found.values())]


def _pair(paradigm: Paradigm, index: int, contrast: Contrast) -> MinimalPair:
    return MinimalPair(
        id=f"{paradigm.name}-{index}",
        set=SET_NAME,
        paradigm=paradigm.name,
        phenomenon=paradigm.phenomenon,
        good=contrast.good,
        bad=contrast.bad,
        metadata=contrast.metadata,
    )


def all_pairs(count: int = 1000, seed: int = 0) -> list[MinimalPair]:
    """``count`` pairs of every paradigm, one paradigm after the other."""
    return [pair for name in PARADIGMS for pair in pairs(name, count, seed)]
