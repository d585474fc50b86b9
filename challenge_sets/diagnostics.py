"""The challenge sets that ``workbench check MODEL --set NAME`` knows, by name."""

from __future__ import annotations

from challenge_sets._pair_sets import AGREEMENT, BLIMP, BUILTIN, CROWS_PAIRS
from challenge_sets._runner import check
from challenge_sets._set import ChallengeSet, Settings
from workbench.registry import Registry

__all__ = ["SETS", "ChallengeSet", "Settings", "check"]

SETS: Registry[ChallengeSet] = Registry("challenge set")

for _set in (BLIMP, BUILTIN, AGREEMENT, CROWS_PAIRS):
    SETS.register(_set.name, _set)
