"""Training on preferences and rewards: reward models, DPO and its relatives, policy gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.rooms import lazy_names

# TRL takes seconds to import; the names are fetched when first used
_HOMES = {
    "AlignMethod": "workbench.training.preferences.settings",
    "AlignSettings": "workbench.training.preferences.settings",
    "align": "workbench.training.preferences.aligning",
}

__all__ = ["AlignMethod", "AlignSettings", "align"]

if TYPE_CHECKING:
    from workbench.training.preferences.aligning import align
    from workbench.training.preferences.settings import AlignMethod, AlignSettings

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
