"""Agreement pairs with an attractor, made with the grammar, of which only the subject's number differs.

*The key on the tables* calls for *is*, *The keys on the tables* for *are*; the noun in between has the other number
than the first text's subject. All have five words of one token each, so that the maps of many pairs can be averaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from challenge_sets.paradigms import pairs
from workbench.data.grammar import nouns
from workbench.errors import DataError

PARADIGM = "agreement_prepositional"
PLACES = ("determiner", "subject", "preposition", "determiner 2", "attractor")
VERBS = {"is", "are"}


@dataclass(frozen=True)
class AgreementPair:
    """Two starts of a sentence that differ in the subject's number; ``target`` is the verb of ``clean``."""

    clean: str
    corrupted: str
    target: str  # " is" or " are"
    contrast: str


def attractor_pairs(tokenizer: Any, count: int = 50, seed: int = 0) -> list[AgreementPair]:
    """``count`` pairs whose words are single tokens; raises ``DataError`` if the grammar makes too few."""
    found: dict[str, AgreementPair] = {}
    drawn = pairs(PARADIGM, 6000, seed)
    for pair in drawn:
        if pair.metadata["attractor"] == "true":
            made = _pair(pair.good.split(), pair.bad.split())
            if made is not None and _five_tokens(tokenizer, made):
                found.setdefault(made.clean, made)
    chosen = list(found.values())[:count]
    if len(chosen) < count:
        raise DataError(
            f"{len(drawn)} generated pairs hold {len(chosen)} with words of one token, {count} asked"
        )
    return chosen


def _pair(good: list[str], bad: list[str]) -> AgreementPair | None:
    other = _other_number()
    verbs = (good[5], bad[5]) if len(good) > 5 and good[:5] == bad[:5] else ("", "")
    if set(verbs) != VERBS or good[0].lower() not in {"the", "my", "your", "his", "her", "our", "their"}:
        return None
    if good[1] not in other:
        return None
    corrupted = [good[0], other[good[1]], *good[2:5]]
    return AgreementPair(" ".join(good[:5]), " ".join(corrupted), f" {verbs[0]}", f" {verbs[1]}")


def _other_number() -> dict[str, str]:
    """Singular to plural and back, of nouns whose two forms differ."""
    forms = [(noun.singular, noun.plural) for noun in nouns() if noun.singular != noun.plural]
    return dict(forms) | {plural: singular for singular, plural in forms}


def _five_tokens(tokenizer: Any, pair: AgreementPair) -> bool:
    lengths = {len(tokenizer(t, add_special_tokens=False).input_ids) for t in (pair.clean, pair.corrupted)}
    return lengths == {len(PLACES)}
