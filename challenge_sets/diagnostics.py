"""The challenge sets that ``workbench check MODEL --set NAME`` knows, by name."""

from __future__ import annotations

from challenge_sets._runner import check
from challenge_sets._set import ChallengeSet, CheckSettings
from challenge_sets.sets.cloze import LAMA, LM_DIAGNOSTICS
from challenge_sets.sets.gulordava import GULORDAVA
from challenge_sets.sets.labelled import CHECKLIST, CONTRAST_SETS, HANS
from challenge_sets.sets.minimal_pairs import AGREEMENT, BLIMP, BUILTIN, CROWS_PAIRS
from challenge_sets.sets.syntaxgym import SYNTAXGYM
from challenge_sets.sets.winograd import WSC
from workbench.registry import Registry

__all__ = ["SETS", "ChallengeSet", "CheckSettings", "check"]

SETS: Registry[ChallengeSet] = Registry("challenge set")

_ALL: tuple[ChallengeSet, ...] = (
    BLIMP,
    BUILTIN,
    AGREEMENT,
    GULORDAVA,
    CROWS_PAIRS,
    LM_DIAGNOSTICS,
    LAMA,
    WSC,
    SYNTAXGYM,
    HANS,
    CONTRAST_SETS,
    CHECKLIST,
)
for _set in _ALL:
    SETS.register(_set.name, _set)
