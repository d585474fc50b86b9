"""The challenge sets that ``workbench check MODEL --set NAME`` knows, by name."""

from __future__ import annotations

from challenge_sets._choice_sets import WSC
from challenge_sets._cloze_sets import LAMA, LM_DIAGNOSTICS
from challenge_sets._labelled_sets import CHECKLIST, CONTRAST_SETS, HANS
from challenge_sets._pair_sets import AGREEMENT, BLIMP, BUILTIN, CROWS_PAIRS
from challenge_sets._runner import check
from challenge_sets._set import ChallengeSet, CheckSettings
from challenge_sets._syntaxgym_set import SYNTAXGYM
from challenge_sets._target_sets import GULORDAVA
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
